package ecs

import (
	"fmt"
	"regexp"
	"time"
)

// definition is a revision of a task definition.
type definition struct {
	registerInput
	arn          string
	revision     int
	inactive     bool
	deleting     bool
	registered   time.Time
	deregistered time.Time
	order        []int // of containers, dependencies first

	// What containers do, by their number and command: most tasks share it.
	behaviours map[string]*behaviour
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
	rolePattern = regexp.MustCompile(`^arn:aws:iam::[0-9]{12}:role/.+$`)
	tagPattern  = regexp.MustCompile(`^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$`)
)

func (s *Server) registerTaskDefinition(c *request) (any, *apiError) {
	var in registerInput
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	if e := s.authorizeRegister(&in); e != nil {
		return nil, e
	}
	// ECS service quotas: "Task definition size" 64 KiB.
	if len(c.body) > maxDefinition {
		return nil, clientError("Actual length: '%d'. Max allowed length is '%d' bytes.", len(c.body), maxDefinition)
	}
	order, e := in.check()
	if e != nil {
		return nil, e
	}
	revs := s.families[*in.Family]
	d := &definition{registerInput: in, revision: len(revs) + 1, registered: c.now, order: order}
	d.arn = s.arn(fmt.Sprintf("task-definition/%s:%d", *in.Family, d.revision))
	s.families[*in.Family] = append(revs, d)
	return map[string]any{"taskDefinition": d.view(), "tags": nonNil(in.Tags)}, nil
}

// authorizeRegister is Service Authorization Reference, "Actions, resources, and
// condition keys for Amazon ECS".
func (s *Server) authorizeRegister(in *registerInput) *apiError {
	arn := s.arn("task-definition/" + value(in.Family) + ":*")
	// It has no resource-level permissions; the tags' resource is the definition.
	if e := s.authorize("ecs:RegisterTaskDefinition", "*"); e != nil {
		return e
	}
	if e := s.authorizeTags("ecs", arn, len(in.Tags)); e != nil {
		return e
	}
	return s.passRole(in.ExecutionRoleArn, in.TaskRoleArn)
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
	volumes, e := in.checkVolumes()
	if e != nil {
		return nil, e
	}
	return checkContainers(in.ContainerDefinitions, taskRules{cpu, memory, in.ExecutionRoleArn != nil, volumes})
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
		if role != nil && !rolePattern.MatchString(*role) {
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
