package ecs

import (
	"slices"
	"strings"
	"time"
)

// Limits of DescribeTasks and ListTasks (ECS API).
const (
	maxDescribe = 100
	maxResults  = 100
	maxReason   = 1024
)

func (s *Server) describeTasks(c *request) (any, *apiError) {
	var in struct {
		Cluster *string  `json:"cluster"`
		Tasks   []string `json:"tasks"`
		Include []string `json:"include"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	if e := s.checkCluster(in.Cluster); e != nil {
		return nil, e
	}
	if len(in.Tasks) == 0 {
		return nil, invalidParameter("Tasks cannot be empty.")
	}
	for _, inc := range in.Include {
		if inc != "TAGS" {
			return nil, invalidParameter("Invalid include %q.", inc)
		}
	}
	if len(in.Tasks) > maxDescribe {
		return nil, invalidParameter("Tasks cannot be more than %d.", maxDescribe)
	}
	for _, id := range in.Tasks {
		if e := s.authorize("ecs:DescribeTasks", s.taskArn(id)); e != nil {
			return nil, e
		}
	}
	seen := s.seen(c.now)
	views, failures := []any{}, []failure{}
	for _, id := range in.Tasks {
		t := s.findTask(id)
		if t == nil || c.now.Sub(t.created) < s.cfg.Delays.Visible {
			failures = append(failures, failure{Arn: s.taskArn(id), Reason: "MISSING"})
			continue
		}
		if t.undescribed != "" {
			failures = append(failures, failure{Arn: t.arn, Reason: t.undescribed})
			continue
		}
		views = append(views, s.view(t, seen, slices.Contains(in.Include, "TAGS")))
	}
	return map[string]any{"tasks": views, "failures": failures}, nil
}

// seen is the time as of which a read shows tasks: up to Delays.Stale ago, another
// time with each call.
func (s *Server) seen(now time.Time) time.Time {
	s.reads++
	if s.cfg.Delays.Stale <= 0 {
		return now
	}
	return now.Add(-s.cfg.Delays.Stale * time.Duration(s.reads%4) / 3)
}

func (s *Server) taskArn(id string) string {
	if strings.HasPrefix(id, "arn:") {
		return id
	}
	return s.arn("task/" + s.cfg.Cluster + "/" + id)
}

func (s *Server) findTask(id string) *task { return s.tasks[s.taskArn(id)] }

type listInput struct {
	Cluster       *string `json:"cluster"`
	Family        *string `json:"family"`
	DesiredStatus *string `json:"desiredStatus"`
	LaunchType    *string `json:"launchType"`
	StartedBy     *string `json:"startedBy"`
	MaxResults    *int32  `json:"maxResults"`
	NextToken     *string `json:"nextToken"`
}

func (s *Server) listTasks(c *request) (any, *apiError) {
	var in listInput
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	if e := s.checkCluster(in.Cluster); e != nil {
		return nil, e
	}
	// ECS API, ListTasks: startedBy: "When you specify startedBy as the filter, it
	// must be the only filter that you use".
	if in.StartedBy != nil && (in.Family != nil || in.DesiredStatus != nil || in.LaunchType != nil) {
		return nil, invalidParameter("startedBy must be the only filter.")
	}
	if d := value(in.DesiredStatus); !slices.Contains([]string{"", "RUNNING", "PENDING", "STOPPED"}, d) {
		return nil, invalidParameter("Invalid desiredStatus %q.", d)
	}
	// Service Authorization Reference: its resource is a container instance.
	if e := s.authorize("ecs:ListTasks", s.arn("container-instance/"+s.cfg.Cluster+"/*")); e != nil {
		return nil, e
	}
	seen := s.seen(c.now)
	var arns []string
	for _, arn := range s.order {
		if s.listed(&in, s.tasks[arn], c.now, seen) {
			arns = append(arns, arn)
		}
	}
	return s.listing("taskArns", arns, in.NextToken, in.MaxResults)
}

// listed applies the filters. By desiredStatus, default RUNNING, so a task that
// is stopping is not among those listed by startedBy (ECS API, ListTasks).
func (s *Server) listed(in *listInput, t *task, now, seen time.Time) bool {
	at := max(0, seen.Sub(t.created))
	desired := "RUNNING"
	if in.DesiredStatus != nil {
		desired = *in.DesiredStatus
	}
	return now.Sub(t.created) >= s.cfg.Delays.Visible &&
		t.desired(at) == desired &&
		(in.Family == nil || *in.Family == *t.def.Family) &&
		(in.LaunchType == nil || *in.LaunchType == "FARGATE") &&
		(in.StartedBy == nil || *in.StartedBy == t.startedBy)
}

func (t *task) desired(at time.Duration) string {
	if at >= t.life.stopping {
		return "STOPPED"
	}
	return "RUNNING"
}

func (s *Server) stopTask(c *request) (any, *apiError) {
	var in struct {
		Cluster *string `json:"cluster"`
		Task    *string `json:"task"`
		Reason  *string `json:"reason"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	if e := s.checkCluster(in.Cluster); e != nil {
		return nil, e
	}
	if e := s.authorize("ecs:StopTask", s.taskArn(value(in.Task))); e != nil {
		return nil, e
	}
	// ECS API, Task: stoppedReason: its length is undocumented.
	if len(value(in.Reason)) > maxReason {
		return nil, invalidParameter("reason can have at most %d characters.", maxReason)
	}
	t := s.findTask(value(in.Task))
	if t == nil {
		// The code and text are undocumented.
		return nil, invalidParameter("The referenced task was not found.")
	}
	t.tags = nil // ECS API, StopTask: "Any tags associated with the task will be deleted".
	if at := c.now.Sub(t.created); at < t.life.stopping {
		reason := "Task stopped by user"
		if in.Reason != nil {
			reason = *in.Reason
		}
		s.end(t, stopCause{at: at, code: codeUser, reason: reason})
	}
	return map[string]any{"task": s.view(t, c.now, true)}, nil
}

// Tasks returns the ARNs of all tasks remembered, oldest first; with live set
// only of those that are not STOPPED.
func (s *Server) Tasks(live bool) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.forget(now)
	var out []string
	for _, arn := range s.order {
		t := s.tasks[arn]
		if !live || now.Sub(t.created) < t.life.stopped {
			out = append(out, arn)
		}
	}
	return out
}
