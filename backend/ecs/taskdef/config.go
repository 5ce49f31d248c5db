package taskdef

import (
	"regexp"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend/ecs/fargate"
)

// Config is what of a node's configuration decides what its tasks are. Its fields are
// those of the same name of the backend's, where their meaning stands.
type Config struct {
	Region, Cluster, NodeIdentity string
	Subnets, SecurityGroups       []string
	AssignPublicIP                bool
	ExecutionRoleARN, TaskRoleARN string
	CPUArchitecture               string
	CapacityTypes                 []string
	PlatformVersion               string
	EphemeralStorageGiB           int32
	EBS                           EBS
	Rates                         fargate.Rates
	LogGroup                      string
	LogOptions                    map[string]string
	TaskImage                     string
	Refresh                       time.Duration
	ClusterDNS                    []string
	ClusterDomain                 string
	Endpoint                      string
}

// Limits of ECS API, AwsVpcConfiguration.
const (
	maxSubnets        = 16
	maxSecurityGroups = 5
)

var rolePattern = regexp.MustCompile(`^arn:aws[a-z-]*:iam::[0-9]{12}:role/.+$`)

// Validate calls bad with every field that is wrong.
func (c Config) Validate(bad func(field, format string, args ...any)) {
	c.validateNetwork(bad)
	c.validateTasks(bad)
	c.validateRoles(bad)
}

func (c Config) validateTasks(bad func(field, format string, args ...any)) {
	if a := c.CPUArchitecture; a != "" && a != fargate.X86 && a != fargate.ARM {
		bad("cpuArchitecture", "must be %s or %s, not %q", fargate.X86, fargate.ARM, a)
	}
	if len(c.TaskImage) > maxImage {
		bad("taskImage", "must have at most %d characters", maxImage)
	}
	if len(c.CapacityTypes) > 0 {
		if err := validCapacity(c.CapacityTypes); err != nil {
			bad("capacityTypes", "%w", err)
		}
	}
	if c.PlatformVersion != "" {
		if err := validPlatform(c.PlatformVersion); err != nil {
			bad("platformVersion", "%w", err)
		}
	}
	if g := c.EphemeralStorageGiB; g != 0 && (g < fargate.MinStorageGiB || g > fargate.MaxStorageGiB) {
		bad("ephemeralStorageGiB", "must be %d to %d, or 0 for Fargate's %d, not %d",
			fargate.MinStorageGiB, fargate.MaxStorageGiB, fargate.FreeStorageGiB, g)
	}
	if c.Refresh != 0 && c.Refresh < minRefresh {
		bad("refresh", "must be at least %s, for each look is a call to Secrets Manager", minRefresh)
	}
	c.EBS.validate(bad)
	if err := c.Rates.Validate(); err != nil {
		bad("rates", "%w", err)
	}
}

func (c Config) validateRoles(bad func(field, format string, args ...any)) {
	for field, role := range map[string]string{"executionRoleARN": c.ExecutionRoleARN, "taskRoleARN": c.TaskRoleARN} {
		if role != "" && !rolePattern.MatchString(role) {
			bad(field, "must be the ARN of an IAM role, not %q", role)
		}
	}
	if c.LogGroup != "" && c.ExecutionRoleARN == "" {
		bad("executionRoleARN", "is required with logGroup, to write logs")
	}
	if len(c.LogOptions) > 0 && c.LogGroup == "" {
		bad("logOptions", "need logGroup")
	}
	if err := validLogOptions(driverAWSLogs, c.LogOptions); err != nil {
		bad("logOptions", "%w", err)
	}
}

func (c Config) validateNetwork(bad func(field, format string, args ...any)) {
	if n := len(c.Subnets); n < 1 || n > maxSubnets {
		bad("subnets", "must have 1 to %d ids, not %d", maxSubnets, n)
	}
	for _, id := range c.Subnets {
		if !strings.HasPrefix(id, "subnet-") {
			bad("subnets", "%q is not the id of a subnet", id)
		}
	}
	if n := len(c.SecurityGroups); n > maxSecurityGroups {
		bad("securityGroups", "must have at most %d ids, not %d", maxSecurityGroups, n)
	}
	for _, id := range c.SecurityGroups {
		if !strings.HasPrefix(id, "sg-") {
			bad("securityGroups", "%q is not the id of a security group", id)
		}
	}
}
