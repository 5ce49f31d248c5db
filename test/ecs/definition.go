package ecs

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// definition is a revision of a task definition.
type definition struct {
	registerInput
	arn        string
	revision   int
	inactive   bool
	registered time.Time
	order      []int // of containers, dependencies first
}

// Limits of task definitions (ECS service quotas, and ECS API,
// RegisterTaskDefinition and ContainerDefinition).
const (
	maxContainers     = 10
	maxDefinition     = 64 << 10
	maxImage          = 255
	minMemory         = 6
	minTimeout        = 2
	maxTimeout        = 120
	maxTags           = 50
	maxTagKey         = 128
	maxTagValue       = 256
	minEphemeral      = 21
	maxEphemeral      = 200
	defaultStopSecond = 30
)

var (
	namePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,255}$`)
	userPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?$`)
	tagPattern  = regexp.MustCompile(`^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$`)
)

func (s *Server) registerTaskDefinition(body []byte, _ *Fault) (any, *apiError) {
	var in registerInput
	if e := decode(body, &in); e != nil {
		return nil, e
	}
	// ECS service quotas: "Task definition size" 64 KiB.
	if len(body) > maxDefinition {
		return nil, clientError("Actual length: '%d'. Max allowed length is '%d' bytes.", len(body), maxDefinition)
	}
	order, e := in.check()
	if e != nil {
		return nil, e
	}
	revs := s.families[*in.Family]
	d := &definition{registerInput: in, revision: len(revs) + 1, registered: time.Now(), order: order}
	d.arn = s.arn(fmt.Sprintf("task-definition/%s:%d", *in.Family, d.revision))
	s.families[*in.Family] = append(revs, d)
	return map[string]any{"taskDefinition": d.view(), "tags": nonNil(in.Tags)}, nil
}

// check applies the rules for Fargate and returns the order of containers.
func (in *registerInput) check() ([]int, *apiError) {
	if !namePattern.MatchString(value(in.Family)) {
		return nil, clientError("Family contains invalid characters or is empty or too long.")
	}
	if len(in.RequiresCompatibilities) != 1 || in.RequiresCompatibilities[0] != "FARGATE" {
		return nil, clientError("requiresCompatibilities must be FARGATE here.")
	}
	if value(in.NetworkMode) != "awsvpc" {
		return nil, clientError("Fargate only supports network mode ‘awsvpc’.")
	}
	cpu, memory, e := checkSize(in.CPU, in.Memory)
	if e != nil {
		return nil, e
	}
	if e := in.checkTask(); e != nil {
		return nil, e
	}
	if e := checkTags(in.Tags); e != nil {
		return nil, e
	}
	return checkContainers(in.ContainerDefinitions, cpu, memory, in.ExecutionRoleArn != nil)
}

// checkTask applies the rules of the task-level members (ECS API,
// RegisterTaskDefinition).
func (in *registerInput) checkTask() *apiError {
	if in.IpcMode != nil {
		return clientError("IpcMode is not supported for Fargate.")
	}
	if in.PidMode != nil && *in.PidMode != "task" {
		return clientError("Fargate only supports pid mode 'task'.")
	}
	if len(in.PlacementConstraints) > 0 {
		return clientError("Placement constraints are not supported for Fargate.")
	}
	if es := in.EphemeralStorage; es != nil && (es.SizeInGiB < minEphemeral || es.SizeInGiB > maxEphemeral) {
		return clientError("Ephemeral storage must be between %d and %d GiB.", minEphemeral, maxEphemeral)
	}
	for _, role := range []*string{in.ExecutionRoleArn, in.TaskRoleArn} {
		if role != nil && !strings.HasPrefix(*role, "arn:aws:iam::") {
			return clientError("Role is not valid.")
		}
	}
	return in.RuntimePlatform.check()
}

// check is ECS API, RuntimePlatform.
func (rp *runtimePlatform) check() *apiError {
	if rp == nil {
		return nil
	}
	if a := value(rp.CPUArchitecture); a != "" && a != "X86_64" && a != "ARM64" {
		return clientError("Invalid cpuArchitecture %q.", a)
	}
	if o := value(rp.OperatingSystemFamily); o != "" && o != "LINUX" {
		return clientError("This server has Linux only, not operatingSystemFamily %q.", o)
	}
	return nil
}

// checkTags is ECS API, Tag: restrictions.
func checkTags(tags []tag) *apiError {
	if len(tags) > maxTags {
		return invalidParameter("Number of tags cannot exceed %d.", maxTags)
	}
	seen := map[string]bool{}
	for _, t := range tags {
		k, v := value(t.Key), value(t.Value)
		if k == "" || len([]rune(k)) > maxTagKey || len([]rune(v)) > maxTagValue || strings.HasPrefix(strings.ToLower(k), "aws:") ||
			!tagPattern.MatchString(k) || !tagPattern.MatchString(v) || seen[k] {
			return invalidParameter("Invalid tag %q.", k)
		}
		seen[k] = true
	}
	return nil
}

func (s *Server) describeTaskDefinition(body []byte, _ *Fault) (any, *apiError) {
	var in struct {
		TaskDefinition *string  `json:"taskDefinition"`
		Include        []string `json:"include"`
	}
	if e := decode(body, &in); e != nil {
		return nil, e
	}
	d := s.findDefinition(value(in.TaskDefinition))
	if d == nil {
		return nil, clientError("Unable to describe task definition.")
	}
	return map[string]any{"taskDefinition": d.view()}, nil
}

func (s *Server) deregisterTaskDefinition(body []byte, _ *Fault) (any, *apiError) {
	var in struct {
		TaskDefinition *string `json:"taskDefinition"`
	}
	if e := decode(body, &in); e != nil {
		return nil, e
	}
	d := s.findDefinition(value(in.TaskDefinition))
	if d == nil || !strings.Contains(*in.TaskDefinition, ":") {
		return nil, clientError("The specified task definition does not exist.")
	}
	d.inactive = true
	return map[string]any{"taskDefinition": d.view()}, nil
}

// findDefinition finds family (its latest ACTIVE revision), family:revision or
// an ARN (ECS API, DescribeTaskDefinition: taskDefinition).
func (s *Server) findDefinition(name string) *definition {
	name = strings.TrimPrefix(name, s.arn("task-definition/"))
	family, rev, ok := strings.Cut(name, ":")
	revs := s.families[family]
	if ok {
		if n, err := strconv.Atoi(rev); err == nil && n >= 1 && n <= len(revs) {
			return revs[n-1]
		}
		return nil
	}
	for i := len(revs) - 1; i >= 0; i-- {
		if !revs[i].inactive {
			return revs[i]
		}
	}
	return nil
}

// view is the definition as the API shows it.
func (d *definition) view() any {
	status := "ACTIVE"
	if d.inactive {
		status = "INACTIVE"
	}
	in := d.registerInput
	in.Tags = nil
	return struct {
		registerInput
		Arn          string   `json:"taskDefinitionArn"`
		Revision     int      `json:"revision"`
		Status       string   `json:"status"`
		Compat       []string `json:"compatibilities"`
		RegisteredAt epoch    `json:"registeredAt"`
	}{in, d.arn, d.revision, status, []string{"EC2", "FARGATE"}, epoch(d.registered)}
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
