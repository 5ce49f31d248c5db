package taskdef

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
	"github.com/burstlet/burstlet/backend/ecs/fargate"
)

// Prefix is that of the annotations by which a pod chooses other than its node
// (see [Annotations]). One that is not known is refused.
const Prefix = "ecs.burstlet.dev/"

// settings say where and as what the task of a pod runs: the node's configuration
// with the pod's annotations over it.
type settings struct {
	subnets, securityGroups []string
	publicIP                bool
	// capacity are the types to try, in order.
	capacity                 []string
	arch                     string
	executionRole, taskRole  string
	platformVersion          string
	storageGiB               int32
	ebs                      ebsSettings
	log                      logSettings
	ulimits                  []ulimit
	initProcess, clampsGrace bool
	// exec is false where the pod's task runs without ECS Exec.
	exec bool
	// unenforced are fields that the pod does without.
	unenforced []string
}

type ulimit struct {
	name       string
	soft, hard int32
}

// logSettings are what becomes of the containers' output.
type logSettings struct {
	driver                 string
	options, secretOptions map[string]string
}

// Annotation is one of those that a pod may have.
type Annotation struct {
	// Name is without Prefix.
	Name string
	// Value shows what to write, Meaning says what becomes of it.
	Value, Meaning string

	set func(*settings, string) error
}

// Annotations are all that a pod may have under Prefix.
func Annotations() []Annotation {
	return []Annotation{
		{
			"capacity-type", "spot,on-demand",
			"capacity to try, in order; a label of this name with one of the two does the same",
			setCapacity,
		},
		{
			"subnets", "subnet-1,subnet-2",
			"subnets instead of the node's",
			listOf(func(s *settings) *[]string { return &s.subnets }, "subnet-", ecsconfig.MaxSubnets),
		},
		{
			"security-groups", "sg-1,sg-2",
			"security groups instead of the node's",
			listOf(func(s *settings) *[]string { return &s.securityGroups }, "sg-", ecsconfig.MaxSecurityGroups),
		},
		{
			"assign-public-ip", "true",
			"a public address, or none",
			boolOf(func(s *settings) *bool { return &s.publicIP }),
		},
		{"architecture", "arm64", "amd64 or arm64; the nodeSelector kubernetes.io/arch does the same", setArch},
		{
			"execution-role-arn", "arn:aws:iam::123456789012:role/pull",
			"role that pulls, reads secrets and writes logs",
			roleOf(func(s *settings) *string { return &s.executionRole }),
		},
		{
			"task-role-arn", "arn:aws:iam::123456789012:role/app",
			"role that the containers have",
			roleOf(func(s *settings) *string { return &s.taskRole }),
		},
		{"platform-version", "1.4.0", "Fargate's platform version", setPlatform},
		{"ephemeral-storage", "50Gi", "ephemeral storage of the task, at least", setStorage},
		{
			"ebs-volume-type", "io2",
			"type of the volume that is made for the pod: gp3, gp2, io1, io2, st1 or sc1",
			setVolumeType,
		},
		{
			"ebs-iops", "6000",
			"its IOPS, of gp3, io1 and io2; io1 and io2 need it",
			countOf(func(s *settings) *int32 { return &s.ebs.iops }),
		},
		{"ebs-throughput", "250", "its MiB/s, of gp3", countOf(func(s *settings) *int32 { return &s.ebs.throughput })},
		{"ebs-filesystem-type", "ext4", "its filesystem: ext3, ext4 or xfs", setFilesystem},
		{"log-driver", "splunk", "awslogs, splunk or none", setLogDriver},
		{
			"log-options", `{"mode":"blocking"}`,
			"options of the log driver, over the node's",
			mapOf(func(s *settings) *map[string]string { return &s.log.options }),
		},
		{
			"log-secret-options", `{"splunk-token":"arn:aws:…"}`,
			"options of the log driver that stand in Secrets Manager or SSM",
			mapOf(func(s *settings) *map[string]string { return &s.log.secretOptions }),
		},
		{"ulimits", "nofile=65536:1048576,core=0", "limits of every container, soft and hard", setUlimits},
		{
			"init-process", "true",
			"an init process in every container, which reaps",
			boolOf(func(s *settings) *bool { return &s.initProcess }),
		},
		{
			"exec", "false",
			"whether exec, cp, port-forward and stats work, for which AWS runs an agent in each container, of 40 MiB",
			boolOf(func(s *settings) *bool { return &s.exec }),
		},
		{
			"clamp-grace", "true",
			"accept a terminationGracePeriodSeconds beyond 120 and give 120",
			boolOf(func(s *settings) *bool { return &s.clampsGrace }),
		},
		{
			"unenforced", "allowPrivilegeEscalation",
			"fields that the pod does without: " + strings.Join(unenforceable, ", "),
			setUnenforced,
		},
	}
}

// unenforceable are the fields that a pod may give up.
var unenforceable = []string{"allowPrivilegeEscalation", "supplementalGroups", "fsGroup", "setHostnameAsFQDN"}

// settingsOf are a pod's, and what is wrong with what it asks for.
func settingsOf(cfg Config, pod *corev1.Pod) (settings, []refusal) {
	s := settings{
		subnets: cfg.Subnets, securityGroups: cfg.SecurityGroups, publicIP: cfg.AssignPublicIP,
		capacity: cfg.CapacityTypes,
		arch:     cfg.CPUArchitecture, executionRole: cfg.ExecutionRoleARN, taskRole: cfg.TaskRoleARN,
		platformVersion: cfg.PlatformVersion, storageGiB: cfg.EphemeralStorageGiB,
		log: logSettings{options: cfg.LogOptions},
		ebs: ebsSettings{EBS: cfg.EBS}, exec: !cfg.NoExec,
	}
	if cfg.LogGroup != "" {
		s.log.driver = driverAWSLogs
	}
	if len(s.capacity) == 0 {
		s.capacity = []string{ecsconfig.CapacityOnDemand}
	}
	if s.arch == "" {
		s.arch = fargate.X86
	}
	refused := s.selectArch(pod)
	refused = append(refused, s.annotate("metadata.labels", pod.Labels,
		func(a Annotation) bool { return a.Name == "capacity-type" })...)
	refused = append(refused, s.annotate("metadata.annotations", pod.Annotations,
		func(Annotation) bool { return true })...)
	return s, append(refused, s.check(cfg)...)
}

// selectArch follows the nodeSelector, which an annotation overrides.
func (s *settings) selectArch(pod *corev1.Pod) []refusal {
	arch, ok := pod.Spec.NodeSelector[corev1.LabelArchStable]
	if !ok || pod.Annotations[Prefix+"architecture"] != "" {
		return nil
	}
	if err := setArch(s, arch); err != nil {
		return []refusal{{Field: "spec.nodeSelector[" + corev1.LabelArchStable + "]", Why: err.Error()}}
	}
	return nil
}

// annotate applies what stands under Prefix, in the order of names.
func (s *settings) annotate(field string, values map[string]string, takes func(Annotation) bool) []refusal {
	var refused []refusal
	known := Annotations()
	for _, key := range slices.Sorted(maps.Keys(values)) {
		name, ours := strings.CutPrefix(key, Prefix)
		if !ours {
			continue
		}
		at := field + "[" + key + "]"
		i := slices.IndexFunc(known, func(a Annotation) bool { return a.Name == name && takes(a) })
		if i < 0 {
			refused = append(refused, refusal{
				Field: at,
				Why:   "there is no such setting: see docs/fields.md for those that there are",
			})
			continue
		}
		if err := known[i].set(s, values[key]); err != nil {
			refused = append(refused, refusal{Field: at, Why: err.Error()})
		}
	}
	return refused
}

// check says what does not go together.
func (s *settings) check(cfg Config) []refusal {
	var refused []refusal
	add := func(name, why string) {
		refused = append(refused, refusal{Field: "metadata.annotations[" + Prefix + name + "]", Why: why})
	}
	if s.log.driver == driverAWSLogs && cfg.LogGroup == "" {
		add("log-driver", "the node has no log group: set backend.ecs.logGroup")
	}
	if s.log.driver != "" && s.executionRole == "" {
		add("log-driver", "logs need a role that may write them: set backend.ecs.executionRoleARN")
	}
	if s.log.driver == "" && len(s.log.options)+len(s.log.secretOptions) > 0 && len(cfg.LogOptions) == 0 {
		add("log-options", "there is no log driver: set backend.ecs.logGroup, or the annotation log-driver")
	}
	if err := ecsconfig.ValidLogOptions(s.log.driver, s.log.options); err != nil {
		add("log-options", err.Error())
	}
	return refused
}

func setCapacity(s *settings, value string) error {
	types := strings.Split(value, ",")
	if err := ecsconfig.ValidCapacity(types); err != nil {
		return err
	}
	s.capacity = types
	return nil
}

func setArch(s *settings, value string) error {
	switch value {
	case "amd64", fargate.X86:
		s.arch = fargate.X86
	case "arm64", fargate.ARM:
		s.arch = fargate.ARM
	default:
		return fmt.Errorf("must be amd64 or arm64, not %q", value)
	}
	return nil
}

func setPlatform(s *settings, value string) error {
	if err := ecsconfig.ValidPlatform(value); err != nil {
		return err
	}
	s.platformVersion = value
	return nil
}

func setStorage(s *settings, value string) error {
	q, err := resource.ParseQuantity(value)
	if err != nil || q.Sign() <= 0 || q.Value() > fargate.MaxStorageGiB*gib {
		return fmt.Errorf("must be an amount of up to %dGi, not %q", fargate.MaxStorageGiB, value)
	}
	s.storageGiB = int32((q.Value() + gib - 1) / gib)
	return nil
}

func listOf(field func(*settings) *[]string, prefix string, most int) func(*settings, string) error {
	return func(s *settings, value string) error {
		ids := strings.Split(value, ",")
		for _, id := range ids {
			if !strings.HasPrefix(id, prefix) || len(ids) > most || strings.ContainsAny(id, " \t\n") {
				return fmt.Errorf("must be 1 to %d ids that begin with %s, with commas between, not %q", most,
					prefix, value)
			}
		}
		*field(s) = ids
		return nil
	}
}

func boolOf(field func(*settings) *bool) func(*settings, string) error {
	return func(s *settings, value string) error {
		b, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("must be true or false, not %q", value)
		}
		*field(s) = b
		return nil
	}
}

func roleOf(field func(*settings) *string) func(*settings, string) error {
	return func(s *settings, value string) error {
		if err := ecsconfig.ValidRole(value); err != nil {
			return err
		}
		*field(s) = value
		return nil
	}
}

// mapOf reads a JSON object of strings over what is there. What stands in it is
// not repeated in an error: it may be what it must not be, a secret.
func mapOf(field func(*settings) *map[string]string) func(*settings, string) error {
	return func(s *settings, value string) error {
		var more map[string]string
		if err := json.Unmarshal([]byte(value), &more); err != nil {
			return fmt.Errorf(`must be a JSON object of strings, as in {"mode":"blocking"}`)
		}
		out := maps.Clone(*field(s))
		if out == nil {
			out = map[string]string{}
		}
		maps.Copy(out, more)
		*field(s) = out
		return nil
	}
}

func setUnenforced(s *settings, value string) error {
	fields := strings.Split(value, ",")
	for _, f := range fields {
		if !slices.Contains(unenforceable, f) {
			return fmt.Errorf("must be of %s, not %q", strings.Join(unenforceable, ", "), f)
		}
	}
	s.unenforced = fields
	return nil
}

// ulimitNames are ECS API, Ulimit: name.
var ulimitNames = []string{
	"core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss", "rtprio",
	"rttime", "sigpending", "stack",
}

func setUlimits(s *settings, value string) error {
	var out []ulimit
	for _, part := range strings.Split(value, ",") {
		u, err := parseUlimit(part)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(out, func(o ulimit) bool { return o.name == u.name }) {
			return fmt.Errorf("%s is there twice", u.name)
		}
		out = append(out, u)
	}
	s.ulimits = out
	return nil
}

// parseUlimit reads name=soft or name=soft:hard; -1 is no limit.
func parseUlimit(part string) (ulimit, error) {
	bad := fmt.Errorf("must be as in nofile=65536:1048576, of %s, not %q", strings.Join(ulimitNames, ", "), part)
	name, limits, ok := strings.Cut(part, "=")
	if !ok || !slices.Contains(ulimitNames, name) {
		return ulimit{}, bad
	}
	softText, hardText, two := strings.Cut(limits, ":")
	if !two {
		hardText = softText
	}
	soft, err := strconv.ParseInt(softText, 10, 32)
	if err != nil || soft < -1 {
		return ulimit{}, bad
	}
	hard, err := strconv.ParseInt(hardText, 10, 32)
	if err != nil || hard < -1 || hard >= 0 && (soft > hard || soft < 0) {
		return ulimit{}, bad
	}
	return ulimit{name, int32(soft), int32(hard)}, nil
}
