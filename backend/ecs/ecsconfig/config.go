package ecsconfig

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/burstlet/burstlet/backend/ecs/fargate"
)

// Config says where and as what tasks run.
type Config struct {
	// Region is the AWS region. Required.
	Region string
	// Cluster is the name or ARN of the ECS cluster. Required.
	Cluster string
	// Subnets are the ids of 1 to 16 subnets of one VPC for the tasks. Required.
	Subnets []string
	// SecurityGroups are the ids of up to 5 groups; none is the VPC's default.
	SecurityGroups []string
	// AssignPublicIP gives each task a public address (public subnets need it to
	// pull images).
	AssignPublicIP bool
	// ExecutionRoleARN is the role that pulls from private ECR and writes logs.
	ExecutionRoleARN string
	// TaskRoleARN is the role that the containers have.
	TaskRoleARN string
	// NodeIdentity is unique to the node among all that use the cluster, such as
	// "<cluster UID>/<node name>". Required, and never changed: tasks are found by it.
	NodeIdentity string
	// CPUArchitecture is X86_64 (also if empty) or ARM64.
	CPUArchitecture string
	// LogGroup is the CloudWatch group for the containers' output; empty: none.
	// It needs ExecutionRoleARN.
	LogGroup string
	// LogOptions are options of the awslogs driver over burstlet's own, such as
	// mode: blocking.
	LogOptions map[string]string
	// TaskImage is the image with burstlet-task, which supervises the containers of all
	// pods: probes, hooks, files of volumes, users and groups, sessions. Empty: pods that
	// need it are refused.
	TaskImage string
	// NoExec runs tasks without ECS Exec, unless their pods ask for it: nothing in them can
	// be reached, and they do without its agent's memory.
	NoExec bool
	// ClusterDNS are the cluster's name servers, where tasks can reach them: pods with
	// dnsPolicy ClusterFirst ask them. Empty: such pods ask the VPC's resolver.
	ClusterDNS []string
	// ClusterDomain is the cluster's, "cluster.local", for names of pods and searches.
	ClusterDomain string
	// RegistryMirrors are endpoints to ask in the place of registries, by the registry's
	// host as images name it: "https://host[:port]", or http for one that may be. Logins
	// of pods are sent to them.
	RegistryMirrors map[string]string
	// Refresh is how often a task looks for files that changed, 5 s or more; zero is 5
	// minutes. Pods with tokens of short lives look more often.
	Refresh time.Duration
	// SessionStats measures what pods use through a session in each task, which stays
	// open. It needs what exec needs.
	SessionStats bool
	// CapacityTypes are what pods are tried on, in order: [CapacityOnDemand] (also
	// if empty) and [CapacitySpot], which the cluster must have FARGATE_SPOT for.
	CapacityTypes []string
	// PlatformVersion is Fargate's, 1.4.0 or newer; empty is LATEST.
	PlatformVersion string
	// EphemeralStorageGiB is each task's, at least: 21 to 200; 0 is Fargate's 20.
	EphemeralStorageGiB int32
	// EBS is how volumes are made for single pods; the zero value: not at all.
	EBS EBS
	// Rates are the prices by which sizes are chosen and shown; the zero value is
	// [fargate.PublishedRates].
	Rates fargate.Rates
	// EventQueueURL is the SQS queue of this node with its tasks' state changes;
	// empty: tasks are polled alone.
	EventQueueURL string
	// UnusedAfter is how long definitions and shared secrets that no task uses are
	// kept for the next pod of their shape; zero is a day.
	UnusedAfter time.Duration
	// PayloadBucket is the S3 bucket, in Region, for files of single pods, such as tokens,
	// and PayloadPrefix begins the keys of its objects. Empty: Secrets Manager keeps them.
	PayloadBucket, PayloadPrefix string
	// Settle is how long a task may take to show in listings; zero is 5 minutes,
	// the longest wait that AWS advises.
	Settle time.Duration
	// Endpoint is the URL of a test server instead of AWS; empty: AWS.
	Endpoint string
}

// EBS says how the volumes are made that pods want for themselves
// (spec.volumes[].ephemeral): as volumes of Amazon EBS, which go with their task.
type EBS struct {
	// RoleARN is the ECS infrastructure role, which makes and deletes the volumes.
	// Empty: pods with such volumes are refused.
	RoleARN string
	// VolumeType is gp3 (also if empty), gp2, io1, io2, st1 or sc1.
	VolumeType string
	// Encrypted asks for it where the account does not encrypt anyway.
	Encrypted bool
	// KMSKeyID is the key of an encrypted volume; empty is the cluster's or the
	// account's own.
	KMSKeyID string
	// FilesystemType is ext3, ext4 or xfs (also if empty).
	FilesystemType string
}

// Defaults (ECS API, RunTask: the advice on eventual consistency).
const (
	defaultSettle = 5 * time.Minute
	defaultUnused = 24 * time.Hour
)

// WithDefaults returns the configuration with what is empty filled in.
func (c Config) WithDefaults() Config {
	if c.CPUArchitecture == "" {
		c.CPUArchitecture = fargate.X86
	}
	if c.Settle == 0 {
		c.Settle = defaultSettle
	}
	if c.UnusedAfter == 0 {
		c.UnusedAfter = defaultUnused
	}
	c.Rates = c.Rates.OrPublished(c.Region)
	return c
}

// PayloadKeyPrefix is PayloadPrefix as it begins keys: with a slash at its end.
func (c Config) PayloadKeyPrefix() string {
	if c.PayloadPrefix == "" {
		return ""
	}
	return strings.TrimSuffix(c.PayloadPrefix, "/") + "/"
}

// Validate returns what is wrong, by the names of the fields in the configuration file.
func (c Config) Validate() error {
	errs := c.Errors(nil)
	if c.NodeIdentity == "" {
		errs = append(errs, field.Required(field.NewPath("nodeIdentity"), "it tells this node's tasks from those of others"))
	}
	joined := make([]error, len(errs))
	for i, err := range errs {
		joined[i] = err
	}
	return errors.Join(joined...)
}

// Errors returns what is wrong with the fields of backend.ecs in a file; at is where they
// stand. What is empty or 0 is the default.
func (c Config) Errors(at *field.Path) field.ErrorList {
	errs := c.placeErrors(at)
	if c.LogGroup != "" && c.ExecutionRoleARN == "" {
		errs = append(errs, field.Required(at.Child("executionRoleARN"), "logGroup needs a role that may write logs"))
	}
	for _, role := range []struct{ name, arn string }{
		{"executionRoleARN", c.ExecutionRoleARN}, {"taskRoleARN", c.TaskRoleARN},
	} {
		errs = append(errs, invalid(at.Child(role.name), role.arn, ValidRole)...)
	}
	if c.Settle < 0 {
		errs = append(errs, field.Invalid(at.Child("settle"), c.Settle.String(), "must not be negative"))
	}
	if c.Refresh != 0 && c.Refresh < MinRefresh {
		errs = append(errs, field.Invalid(at.Child("refresh"), c.Refresh.String(), "must be at least "+MinRefresh.String()))
	}
	errs = append(errs, c.statsErrors(at)...)
	if d := c.UnusedAfter; d != 0 && d < MinUnused {
		errs = append(errs, field.Invalid(at.Child("unusedAfter"), d.String(), "must be at least 1h"))
	}
	if url := c.EventQueueURL; url != "" && !queueForm.MatchString(url) {
		errs = append(errs, field.Invalid(at.Child("eventQueueURL"), url, "must be the URL of an SQS queue"))
	}
	errs = append(errs, c.payloadErrors(at)...)
	for _, host := range slices.Sorted(maps.Keys(c.RegistryMirrors)) {
		if _, err := Mirror(c.RegistryMirrors[host]); err != nil {
			errs = append(errs, field.Invalid(at.Child("registryMirrors").Key(host), "(hidden)", err.Error()))
		}
	}
	return append(errs, c.taskErrors(at)...)
}

// payloadErrors judges where files of single pods are kept.
func (c Config) payloadErrors(at *field.Path) field.ErrorList {
	errs := invalid(at.Child("payloadBucket"), c.PayloadBucket, ValidBucket)
	errs = append(errs, invalid(at.Child("payloadPrefix"), c.PayloadPrefix, ValidKeyPrefix)...)
	if c.PayloadPrefix != "" && c.PayloadBucket == "" {
		errs = append(errs, field.Required(at.Child("payloadBucket"), "payloadPrefix begins the keys of its objects"))
	}
	return errs
}

// statsErrors judges what stats need.
func (c Config) statsErrors(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.SessionStats && c.TaskImage == "" {
		errs = append(errs, field.Required(at.Child("taskImage"), "stats are measured through it"))
	}
	if c.SessionStats && c.NoExec {
		errs = append(errs, field.Invalid(at.Child("exec"), false, "stats are measured through sessions of ECS Exec"))
	}
	return errs
}

// placeErrors judges where tasks run.
func (c Config) placeErrors(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case c.Region == "":
		errs = append(errs, field.Required(at.Child("region"), "an AWS region such as eu-central-1"))
	case !regionForm.MatchString(c.Region):
		errs = append(errs, field.Invalid(at.Child("region"), c.Region, "must be an AWS region such as eu-central-1"))
	}
	if c.Cluster == "" {
		errs = append(errs, field.Required(at.Child("cluster"), "the name or ARN of an ECS cluster"))
	}
	if len(c.Subnets) == 0 {
		errs = append(errs, field.Required(at.Child("subnets"), "the ids of 1 to 16 subnets"))
	}
	for _, list := range []struct {
		name, what string
		form       *regexp.Regexp
		ids        []string
		most       int
	}{
		{"subnets", "must be the id of a subnet", subnetForm, c.Subnets, MaxSubnets},
		{"securityGroups", "must be the id of a security group", groupForm, c.SecurityGroups, MaxSecurityGroups},
	} {
		if n := len(list.ids); n > list.most {
			errs = append(errs, field.TooMany(at.Child(list.name), n, list.most))
		}
		for i, id := range list.ids {
			if !list.form.MatchString(id) {
				errs = append(errs, field.Invalid(at.Child(list.name).Index(i), id, list.what))
			}
		}
	}
	return errs
}

// taskErrors judges what each task is given.
func (c Config) taskErrors(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(c.TaskImage) > MaxImage {
		errs = append(errs, field.TooLong(at.Child("taskImage"), c.TaskImage, MaxImage))
	}
	for i, t := range c.CapacityTypes {
		switch {
		case !slices.Contains(CapacityTypes(), t):
			errs = append(errs, field.NotSupported(at.Child("capacityTypes").Index(i), t, CapacityTypes()))
		case slices.Index(c.CapacityTypes, t) < i:
			errs = append(errs, field.Duplicate(at.Child("capacityTypes").Index(i), t))
		}
	}
	errs = append(errs, invalid(at.Child("platformVersion"), c.PlatformVersion, ValidPlatform)...)
	if g := c.EphemeralStorageGiB; g != 0 && (g < fargate.MinStorageGiB || g > fargate.MaxStorageGiB) {
		why := fmt.Sprintf("must be %d to %d, or 0 for Fargate's %d",
			fargate.MinStorageGiB, fargate.MaxStorageGiB, fargate.FreeStorageGiB)
		errs = append(errs, field.Invalid(at.Child("ephemeralStorageGiB"), g, why))
	}
	if len(c.LogOptions) > 0 && c.LogGroup == "" {
		errs = append(errs, field.Required(at.Child("logGroup"), "logOptions are those of its log driver"))
	}
	if err := ValidLogOptions(DriverAWSLogs, c.LogOptions); err != nil {
		errs = append(errs, field.Forbidden(at.Child("logOptions"), err.Error()))
	}
	if c.EBS != (EBS{}) {
		errs = append(errs, c.EBS.Errors(at.Child("ebs"))...)
	}
	if c.Rates != (fargate.Rates{}) {
		errs = append(errs, PriceErrors(c.Rates, at.Child("prices"))...)
	}
	if a := c.CPUArchitecture; a != "" && !slices.Contains(Architectures(), a) {
		errs = append(errs, field.NotSupported(at.Child("cpuArchitecture"), a, Architectures()))
	}
	return errs
}

// Errors returns what is wrong with the volumes of a configuration that has any.
func (e EBS) Errors(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if e.RoleARN == "" {
		errs = append(errs, field.Required(at.Child("roleARN"), "the role by which Amazon ECS makes volumes"))
	}
	errs = append(errs, invalid(at.Child("roleARN"), e.RoleARN, ValidRole)...)
	if e.VolumeType != "" && ValidVolumeType(e.VolumeType) != nil {
		errs = append(errs, field.NotSupported(at.Child("volumeType"), e.VolumeType, VolumeTypes()))
	}
	if e.FilesystemType != "" && ValidFilesystem(e.FilesystemType) != nil {
		errs = append(errs, field.NotSupported(at.Child("filesystemType"), e.FilesystemType, FilesystemTypes()))
	}
	switch {
	case e.KMSKeyID == "":
	case !e.Encrypted:
		errs = append(errs, field.Invalid(at.Child("kmsKeyID"), e.KMSKeyID, "is for encrypted volumes: set encrypted"))
	case !keyForm.MatchString(e.KMSKeyID):
		errs = append(errs, field.Invalid(at.Child("kmsKeyID"), e.KMSKeyID, "must be a KMS key's id, alias or ARN"))
	}
	return errs
}

// PriceErrors returns what is wrong with the prices of a configuration that has any: those
// of vCPUs and memory must be there, the others may be 0.
func PriceErrors(r fargate.Rates, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, price := range []struct {
		name     string
		dollars  float64
		required bool
	}{
		{"vcpu", r.VCPU, true},
		{"gb", r.GB, true},
		{"armVCPU", r.ARMVCPU, true},
		{"armGB", r.ARMGB, true},
		{"storageGB", r.StorageGB, false},
		{"ebsGB", r.EBSGB, false},
	} {
		switch d := price.dollars; {
		case d < 0, d == 0 && price.required:
			errs = append(errs, field.Invalid(at.Child(price.name), d, "must be dollars an hour"))
		case d > MaxPrice:
			errs = append(
				errs, field.Invalid(at.Child(price.name), d, fmt.Sprintf("must be dollars an hour, at most %d", MaxPrice)),
			)
		}
	}
	if r.SpotFactor < 0 || r.SpotFactor > 1 {
		errs = append(errs, field.Invalid(at.Child("spotFactor"), r.SpotFactor, "must be 0 to 1"))
	}
	return errs
}

// invalid is what a rule says of a value that is given.
func invalid(at *field.Path, value string, rule func(string) error) field.ErrorList {
	if value == "" {
		return nil
	}
	if err := rule(value); err != nil {
		return field.ErrorList{field.Invalid(at, value, err.Error())}
	}
	return nil
}
