package ecs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Limits of RunTask (ECS API, RunTask and AwsVpcConfiguration).
const (
	maxCount          = 10
	maxSubnets        = 16
	maxSecurityGroups = 5
	maxToken          = 64
	maxStartedBy      = 128
	maxOverrides      = 8192
	tokenTTL          = 24 * time.Hour
	stoppedMemory     = time.Hour
)

var startedByPattern = regexp.MustCompile(`^[A-Za-z0-9/_-]*$`)

// task is a task and what was asked of it.
type task struct {
	arn, startedBy, group string
	def                   *definition
	ov                    overrides
	rawOverrides          json.RawMessage
	tags                  []tag
	ip, subnet            string
	created               time.Time
	user                  stopCause
	life                  life
}

// tokenUse is what a client token was used for.
type tokenUse struct {
	params []byte
	arns   []string
	until  time.Time
}

func (s *Server) runTask(body []byte, f *Fault) (any, *apiError) {
	var in runInput
	if e := decode(body, &in); e != nil {
		return nil, e
	}
	var ov overrides
	if e := s.checkRun(&in, &ov); e != nil {
		return nil, e
	}
	d := s.findDefinition(value(in.TaskDefinition))
	if d == nil {
		return nil, clientError("TaskDefinition not found.")
	}
	if d.inactive {
		return nil, clientError("TaskDefinition is inactive")
	}
	for _, o := range ov.ContainerOverrides {
		if d.index(value(o.Name)) < 0 {
			return nil, invalidParameter("Override for container named %s is not a container in the TaskDefinition.", value(o.Name))
		}
	}
	out, e, done := s.replay(in.ClientToken, body)
	if done {
		return out, e
	}
	if f != nil && f.Failure != "" {
		// ECS API, RunTask: failures. A refusal does not use up the token.
		return map[string]any{"tasks": []any{}, "failures": []failure{{Reason: f.Failure}}}, nil
	}
	return s.create(&in, ov, d, body), nil
}

// checkRun applies the rules of RunTask's members.
func (s *Server) checkRun(in *runInput, ov *overrides) *apiError {
	if e := s.checkCluster(in.Cluster); e != nil {
		return e
	}
	if in.TaskDefinition == nil || *in.TaskDefinition == "" {
		return invalidParameter("TaskDefinition should not be null or empty.")
	}
	if in.Count != nil && (*in.Count < 1 || *in.Count > maxCount) {
		return invalidParameter("Count should be between 1 and %d.", maxCount)
	}
	if value(in.LaunchType) != "FARGATE" {
		return invalidParameter("No Container Instances were found in your cluster.")
	}
	// ECS API, RunTask: startedBy.
	if sb := value(in.StartedBy); len(sb) > maxStartedBy || !startedByPattern.MatchString(sb) {
		return invalidParameter("startedBy contains invalid characters or is longer than %d.", maxStartedBy)
	}
	if e := checkToken(in.ClientToken); e != nil {
		return e
	}
	// ECS API, RunTask: propagateTags: "An error will be received if you specify
	// the SERVICE option".
	if p := value(in.PropagateTags); p != "" && p != "TASK_DEFINITION" {
		return invalidParameter("Invalid propagateTags %q.", p)
	}
	if e := checkTags(in.Tags); e != nil {
		return e
	}
	if e := in.NetworkConfiguration.check(); e != nil {
		return e
	}
	return s.checkOverrides(in.Overrides, ov)
}

// checkToken is ECS API, RunTask: clientToken: 1 to 64 ASCII characters 33-126.
func checkToken(token *string) *apiError {
	if token == nil {
		return nil
	}
	if n := len(*token); n < 1 || n > maxToken {
		return invalidParameter("clientToken must have 1 to %d characters.", maxToken)
	}
	if strings.ContainsFunc(*token, func(r rune) bool { return r < 33 || r > 126 }) {
		return invalidParameter("clientToken contains invalid characters.")
	}
	return nil
}

// check is ECS API, AwsVpcConfiguration.
func (n *networkConfiguration) check() *apiError {
	if n == nil || n.Awsvpc == nil {
		return invalidParameter("Network Configuration must be provided when networkMode 'awsvpc' is specified.")
	}
	if c := len(n.Awsvpc.Subnets); c < 1 || c > maxSubnets {
		return invalidParameter("subnets must have 1 to %d items.", maxSubnets)
	}
	if len(n.Awsvpc.SecurityGroups) > maxSecurityGroups {
		return invalidParameter("securityGroups can have at most %d items.", maxSecurityGroups)
	}
	for _, sn := range n.Awsvpc.Subnets {
		if !strings.HasPrefix(sn, "subnet-") {
			return invalidParameter("Error retrieving subnet information for [%s]: The subnet ID '%s' does not exist (ErrorCode: InvalidSubnetID.NotFound)", sn, sn)
		}
	}
	for _, sg := range n.Awsvpc.SecurityGroups {
		if !strings.HasPrefix(sg, "sg-") {
			return invalidParameter("Error retrieving security group information for [%s]: The security group ID '%s' does not exist (ErrorCode: InvalidGroup.NotFound)", sg, sg)
		}
	}
	if a := value(n.Awsvpc.AssignPublicIP); a != "" && a != "ENABLED" && a != "DISABLED" {
		return invalidParameter("Invalid assignPublicIp %q.", a)
	}
	return nil
}

// checkOverrides is ECS API, TaskOverride: "the total length of the override...
// 8192 characters", and the members Fargate knows.
func (s *Server) checkOverrides(raw json.RawMessage, ov *overrides) *apiError {
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return nil
	}
	if len([]rune(string(raw))) > maxOverrides {
		return invalidParameter("Container Overrides length must be at most %d", maxOverrides)
	}
	if e := decode(raw, ov); e != nil {
		return e
	}
	if (ov.CPU == nil) != (ov.Memory == nil) {
		return invalidParameter("cpu and memory overrides must be given together here.")
	}
	if ov.CPU != nil {
		if _, _, e := checkSize(ov.CPU, ov.Memory); e != nil {
			return invalidParameter("%s", e.Message)
		}
	}
	for _, c := range ov.ContainerOverrides {
		for _, kv := range c.Environment {
			if value(kv.Name) == "" {
				return invalidParameter("Environment variable without a name.")
			}
		}
	}
	return nil
}

// replay answers for a token that was used before (ECS API, "Ensuring
// idempotency"): with the same parameters the original result, of which a task
// that has stopped shows only taskArn, lastStatus and desiredStatus; with others
// ConflictException naming the tasks.
func (s *Server) replay(token *string, body []byte) (any, *apiError, bool) {
	if token == nil {
		return nil, nil, false
	}
	use := s.tokens[*token]
	if use == nil {
		return nil, nil, false
	}
	if !bytes.Equal(use.params, canonical(body)) {
		e := failf("ConflictException", "The provided clientToken is already in use with a different RunTask request.")
		e.ResourceIDs = use.arns
		return nil, e, true
	}
	views := []any{}
	for _, arn := range use.arns {
		if t := s.tasks[arn]; t != nil {
			v := s.view(t, time.Now(), true)
			if v.LastStatus == "STOPPED" {
				views = append(views, map[string]any{"taskArn": v.TaskArn, "lastStatus": v.LastStatus, "desiredStatus": v.DesiredStatus})
				continue
			}
			views = append(views, v)
		}
	}
	return map[string]any{"tasks": views, "failures": []failure{}}, nil, true
}

// create makes the tasks.
func (s *Server) create(in *runInput, ov overrides, d *definition, body []byte) any {
	now := time.Now()
	views, arns := []any{}, []string{}
	count := int32(1)
	if in.Count != nil {
		count = *in.Count
	}
	for range count {
		t := &task{
			arn: s.arn("task/" + s.cfg.Cluster + "/" + s.newID()), startedBy: value(in.StartedBy), group: value(in.Group),
			def: d, ov: ov, rawOverrides: in.Overrides, tags: in.Tags, created: now, user: stopCause{at: never},
			subnet: in.NetworkConfiguration.Awsvpc.Subnets[0],
		}
		t.ip = fmt.Sprintf("10.0.%d.%d", s.serial/250%250, s.serial%250+4)
		if t.group == "" {
			t.group = "family:" + *d.Family // ECS API, RunTask: group
		}
		t.life = lifeOf(d, ov, s.cfg.Delays, t.user)
		s.tasks[t.arn] = t
		s.order = append(s.order, t.arn)
		arns = append(arns, t.arn)
		views = append(views, s.view(t, now, true))
	}
	if in.ClientToken != nil {
		s.tokens[*in.ClientToken] = &tokenUse{params: canonical(body), arns: arns, until: now.Add(tokenTTL)}
	}
	return map[string]any{"tasks": views, "failures": []failure{}}
}

// canonical is JSON with sorted members. The body was decoded before.
func canonical(body []byte) []byte {
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return body
	}
	b, err := json.Marshal(v)
	if err != nil {
		return body
	}
	return b
}

// forget drops tasks an hour after they stopped (ECS API, DescribeTasks: "stopped
// tasks appear for at least one hour") and tokens after the lesser of 24 hours
// and the life of their tasks and one hour ("Ensuring idempotency").
func (s *Server) forget(now time.Time) {
	kept := s.order[:0]
	for _, arn := range s.order {
		t := s.tasks[arn]
		if t.life.stopped != never && now.Sub(t.created) >= sum(t.life.stopped, stoppedMemory) {
			delete(s.tasks, arn)
			continue
		}
		kept = append(kept, arn)
	}
	s.order = kept
	for token, use := range s.tokens {
		known := false
		for _, arn := range use.arns {
			known = known || s.tasks[arn] != nil
		}
		if !known || !now.Before(use.until) {
			delete(s.tokens, token)
		}
	}
}
