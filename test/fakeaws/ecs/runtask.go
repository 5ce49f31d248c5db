package ecs

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
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
	tags                  []tag // none after StopTask
	launchTags            []tag
	place                 place
	ebs                   *volumeConfiguration // the volume made for it, if any
	ip                    string
	execute               bool
	created               time.Time
	// broken is why it does not start, "" if it does; noPayload is true if what it
	// should write is not there. They are settled when its interface is attached.
	broken string
	// unattached is true of a task whose network interface does not come.
	unattached bool
	noPayload  bool
	// undescribed is why DescribeTasks says nothing of it, "" if it does.
	undescribed string
	user        stopCause
	life        life
	driver      *driver // nil: no container runs
	// changes are the offsets of its changes; up to told they were sent as events.
	changes []time.Duration
	told    time.Duration
	// reporter is its helper's agent, nil without one that tells.
	reporter *reporter
}

// age is how long ago a task was made.
func (s *Server) age(t *task) time.Duration { return time.Since(t.created) }

// tokenUse is what a client token was used for.
type tokenUse struct {
	params [sha256.Size]byte
	arns   []string
	until  time.Time
}

func (s *Server) runTask(c *request) (any, *apiError) {
	var in runInput
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	var ov overrides
	if e := s.authorizeRun(&in); e != nil {
		return nil, e
	}
	if e := s.checkRun(&in, &ov); e != nil {
		return nil, e
	}
	if e := s.passRole(ov.ExecutionRoleArn, ov.TaskRoleArn); e != nil {
		return nil, e
	}
	d, e := s.runnable(&in, ov)
	if e != nil {
		return nil, e
	}
	if e := s.checkLaunchVolumes(&in, d); e != nil {
		return nil, e
	}
	out, e, done := s.replay(in.ClientToken, c)
	if done {
		return out, e
	}
	if c.fault != nil && c.fault.Failure != "" {
		if s.cfg.Reworded {
			return refused("NO ROOM AS THINGS ARE"), nil
		}
		return refused(c.fault.Failure), nil
	}
	p, out, e := s.room(&in, d, ov, c)
	if e != nil || out != nil {
		return out, e
	}
	return s.create(&in, ov, d, p, c), nil
}

// refused is ECS API, RunTask: failures. A refusal does not use up the token.
func refused(reason string) any {
	return map[string]any{"tasks": []any{}, "failures": []failure{{Reason: reason}}}
}

// authorizeRun is Service Authorization Reference, "Actions, resources, and
// condition keys for Amazon ECS", and its tags. The roles of overrides are passed.
func (s *Server) authorizeRun(in *runInput) *apiError {
	name := value(in.TaskDefinition)
	arn := name
	if d := s.findDefinition(name); d != nil {
		arn = d.arn
	} else if !strings.HasPrefix(name, "arn:") {
		arn = s.arn("task-definition/" + name)
	}
	if e := s.authorize("ecs:RunTask", arn); e != nil {
		return e
	}
	return s.authorizeTags("ecs", s.arn("task/"+s.cfg.Cluster+"/*"), len(in.Tags))
}

// runnable is the definition of a request, if it can run so.
func (s *Server) runnable(in *runInput, ov overrides) (*definition, *apiError) {
	d := s.findDefinition(*in.TaskDefinition)
	if d == nil {
		return nil, clientError("TaskDefinition not found.")
	}
	if d.inactive {
		return nil, clientError("TaskDefinition is inactive")
	}
	for _, o := range ov.ContainerOverrides {
		if d.index(value(o.Name)) < 0 {
			return nil, invalidParameter(
				"Override for container named %s is not a container in the TaskDefinition.", value(o.Name),
			)
		}
	}
	// ECS developer guide, "Using ECS Exec": a task role is needed.
	if in.EnableExecute && d.TaskRoleArn == nil && ov.TaskRoleArn == nil {
		return nil, invalidParameter("The service couldn't be created because a valid taskRoleArn is not being used.")
	}
	if e := checkOverriddenSize(d, ov); e != nil {
		return nil, e
	}
	return d, nil
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
	// ECS API, RunTask: startedBy.
	if sb := value(in.StartedBy); len(sb) > maxStartedBy || !startedByPattern.MatchString(sb) {
		return invalidParameter("startedBy contains invalid characters or is longer than %d.", maxStartedBy)
	}
	// ECS API, RunTask: platformVersion; Fargate's for Linux.
	if v := value(in.PlatformVersion); !slices.Contains([]string{"", "LATEST", "1.4.0"}, v) {
		return failf("PlatformUnknownException", "The specified platform does not exist.")
	}
	// ECS API, RunTask: propagateTags: "An error will be received if you specify
	// the SERVICE option".
	if p := value(in.PropagateTags); p != "" && p != "TASK_DEFINITION" && p != "NONE" {
		return invalidParameter("Invalid propagateTags %q.", p)
	}
	for _, e := range []*apiError{
		checkToken(in.ClientToken), s.checkProviders(in), checkTags(in.Tags), s.checkNetwork(in.NetworkConfiguration),
		s.checkOverrides(in.Overrides, ov),
	} {
		if e != nil {
			return e
		}
	}
	return nil
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
	if es := ov.EphemeralStorage; es != nil && (es.SizeInGiB < minEphemeral || es.SizeInGiB > maxEphemeral) {
		return invalidParameter("Ephemeral storage must be between %d and %d GiB.", minEphemeral, maxEphemeral)
	}
	for _, role := range []*string{ov.ExecutionRoleArn, ov.TaskRoleArn} {
		if role != nil && !rolePattern.MatchString(*role) {
			return invalidParameter("Role is not valid.")
		}
	}
	return checkContainerOverrides(ov.ContainerOverrides)
}

// checkContainerOverrides is ECS API, ContainerOverride.
func checkContainerOverrides(cs []containerOverride) *apiError {
	seen := map[string]bool{}
	for _, c := range cs {
		if seen[value(c.Name)] {
			return invalidParameter("Container %q is overridden twice.", value(c.Name))
		}
		seen[value(c.Name)] = true
		if e := checkEnvironmentFiles(c.EnvironmentFiles); e != nil {
			return invalidParameter("%s", e.Message)
		}
		for _, kv := range c.Environment {
			if value(kv.Name) == "" {
				return invalidParameter("Environment variable without a name.")
			}
		}
	}
	return nil
}

// checkOverriddenSize is ECS API, TaskOverride: cpu, memory: with the definition's
// the size must be one of Fargate's.
func checkOverriddenSize(d *definition, ov overrides) *apiError {
	if _, _, e := checkSize(first(ov.CPU, d.CPU), first(ov.Memory, d.Memory)); e != nil {
		return invalidParameter("%s", e.Message)
	}
	return nil
}

func first[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

// replay answers for a token that was used before (ECS API, "Ensuring
// idempotency"): with the same parameters the original result, of which a task
// that has stopped shows only taskArn, lastStatus and desiredStatus; with others
// ConflictException naming the tasks.
func (s *Server) replay(token *string, c *request) (any, *apiError, bool) {
	if token == nil {
		return nil, nil, false
	}
	use := s.tokens[*token]
	if use == nil {
		return nil, nil, false
	}
	if use.params != canonical(c.body) {
		e := failf("ConflictException", "The provided clientToken is already in use with a different RunTask request.")
		e.ResourceIDs = use.arns
		return nil, e, true
	}
	views := []any{}
	for _, arn := range use.arns {
		if t := s.tasks[arn]; t != nil {
			v := s.view(t, c.now, true)
			if v.LastStatus == "STOPPED" {
				views = append(
					views, map[string]any{"taskArn": v.TaskArn, "lastStatus": v.LastStatus, "desiredStatus": v.DesiredStatus},
				)
				continue
			}
			views = append(views, v)
		}
	}
	return map[string]any{"tasks": views, "failures": []failure{}}, nil, true
}

// create makes the tasks.
func (s *Server) create(in *runInput, ov overrides, d *definition, p place, c *request) any {
	views, arns := []any{}, []string{}
	for range or(in.Count, 1) {
		t := &task{
			arn: s.arn("task/" + s.cfg.Cluster + "/" + s.newID()), startedBy: value(in.StartedBy), group: value(in.Group),
			def: d, ov: ov, rawOverrides: in.Overrides, tags: in.Tags, created: c.now, user: stopCause{at: never},
			place: p, execute: in.EnableExecute, told: -1,
		}
		s.made++
		t.unattached = !s.cfg.Kindness.Interfaces && s.made%s.cfg.NoInterface == s.cfg.NoInterface/2
		if len(in.VolumeConfigurations) > 0 {
			t.ebs = &in.VolumeConfigurations[0]
		}
		if value(in.PropagateTags) == "TASK_DEFINITION" {
			t.tags = mergeTags(d.Tags, in.Tags)
		}
		t.launchTags = t.tags
		t.ip = fmt.Sprintf("10.%d.%d.%d", s.serial/62500%250, s.serial/250%250, s.serial%250+4)
		if t.group == "" {
			t.group = "family:" + *d.Family // ECS API, RunTask: group
		}
		s.tasks[t.arn] = t
		s.order = append(s.order, t.arn)
		if s.cfg.Runner != nil {
			s.launch(t)
		} else {
			s.resolve(t)
			s.relive(t)
			s.openStreams(t)
		}
		arns = append(arns, t.arn)
		views = append(views, s.view(t, c.now, true))
	}
	if in.ClientToken != nil {
		s.tokens[*in.ClientToken] = &tokenUse{params: canonical(c.body), arns: arns, until: c.now.Add(tokenTTL)}
		s.due(c.now.Add(tokenTTL))
	}
	return map[string]any{"tasks": views, "failures": []failure{}}
}

// mergeTags adds tags to others, replacing those of the same key.
func mergeTags(to, more []tag) []tag {
	out := slices.Clone(to)
	for _, t := range more {
		if i := slices.IndexFunc(out, func(o tag) bool { return value(o.Key) == value(t.Key) }); i >= 0 {
			out[i] = t
			continue
		}
		out = append(out, t)
	}
	return out
}

// relive derives a task's life anew after something was done to it.
func (s *Server) relive(t *task) {
	if t.driver != nil {
		return // its life is what happens
	}
	t.life = lifeOf(t, &s.cfg)
	if t.life.stopped != never {
		s.due(t.created.Add(t.life.stopped).Add(stoppedMemory))
	}
	s.eventsDue(t)
	s.wake()
}

// canonical is a digest of JSON with sorted members. The body was decoded before.
func canonical(body []byte) [sha256.Size]byte {
	var v any
	if json.Unmarshal(body, &v) == nil {
		if b, err := json.Marshal(v); err == nil {
			body = b
		}
	}
	return sha256.Sum256(body)
}

// due notes when something is to be forgotten.
func (s *Server) due(at time.Time) {
	if s.forgetAt.IsZero() || at.Before(s.forgetAt) {
		s.forgetAt = at
	}
}

// forget drops tasks an hour after they stopped (ECS API, DescribeTasks: "stopped
// tasks appear for at least one hour") and tokens after the lesser of 24 hours
// and the life of their tasks and one hour ("Ensuring idempotency").
func (s *Server) forget(now time.Time) {
	if s.forgetAt.IsZero() || now.Before(s.forgetAt) {
		return
	}
	s.forgetAt = time.Time{}
	kept := s.order[:0]
	for _, arn := range s.order {
		t := s.tasks[arn]
		if t.life.stopped != never {
			gone := t.created.Add(t.life.stopped).Add(stoppedMemory)
			if !now.Before(gone) {
				s.past.add(s.costOf(t, now))
				delete(s.tasks, arn)
				delete(s.byKey, t.accessKey())
				if len(s.queues) == 0 { // else an event of it may not have been read yet
					t.ov, t.rawOverrides, t.launchTags = overrides{}, nil, nil
				}
				continue
			}
			s.due(gone)
		}
		kept = append(kept, arn)
	}
	clear(s.order[len(kept):])
	s.order = kept
	for token, use := range s.tokens {
		known := slices.ContainsFunc(use.arns, func(arn string) bool { return s.tasks[arn] != nil })
		if !known || !now.Before(use.until) {
			delete(s.tokens, token)
			continue
		}
		s.due(use.until)
	}
}
