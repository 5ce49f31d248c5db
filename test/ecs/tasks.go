package ecs

import (
	"encoding/base64"
	"slices"
	"strings"
	"time"
)

// Limits of DescribeTasks and ListTasks (ECS API).
const (
	maxDescribe = 100
	maxResults  = 100
)

func (s *Server) describeTasks(body []byte, _ *Fault) (any, *apiError) {
	var in struct {
		Cluster *string  `json:"cluster"`
		Tasks   []string `json:"tasks"`
		Include []string `json:"include"`
	}
	if e := decode(body, &in); e != nil {
		return nil, e
	}
	if e := s.checkCluster(in.Cluster); e != nil {
		return nil, e
	}
	if len(in.Tasks) == 0 {
		return nil, invalidParameter("Tasks cannot be empty.")
	}
	if len(in.Tasks) > maxDescribe {
		return nil, invalidParameter("Tasks cannot be more than %d.", maxDescribe)
	}
	now := time.Now()
	views, failures := []any{}, []failure{}
	for _, id := range in.Tasks {
		t := s.findTask(id)
		if t == nil || now.Sub(t.created) < s.cfg.Delays.Visible {
			failures = append(failures, failure{Arn: s.taskArn(id), Reason: "MISSING"})
			continue
		}
		views = append(views, s.view(t, now, slices.Contains(in.Include, "TAGS")))
	}
	return map[string]any{"tasks": views, "failures": failures}, nil
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

func (s *Server) listTasks(body []byte, _ *Fault) (any, *apiError) {
	var in listInput
	if e := decode(body, &in); e != nil {
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
	limit := maxResults
	if in.MaxResults != nil {
		if limit = int(*in.MaxResults); limit < 1 || limit > maxResults {
			return nil, invalidParameter("maxResults must be between 1 and %d.", maxResults)
		}
	}
	start, ok := s.position(in.NextToken)
	if !ok {
		return nil, invalidParameter("Invalid token")
	}
	arns := []string{}
	out := map[string]any{}
	for i := start; i < len(s.order); i++ {
		if !s.listed(&in, s.tasks[s.order[i]], time.Now()) {
			continue
		}
		if len(arns) == limit {
			out["nextToken"] = base64.StdEncoding.EncodeToString([]byte(arns[len(arns)-1]))
			break
		}
		arns = append(arns, s.order[i])
	}
	out["taskArns"] = arns
	return out, nil
}

// position is where the page after a token starts.
func (s *Server) position(token *string) (int, bool) {
	if token == nil {
		return 0, true
	}
	arn, err := base64.StdEncoding.DecodeString(*token)
	if err != nil {
		return 0, false
	}
	i := slices.Index(s.order, string(arn))
	return i + 1, i >= 0
}

// listed applies the filters. By desiredStatus, default RUNNING, so a task that
// is stopping is not among those listed by startedBy (ECS API, ListTasks).
func (s *Server) listed(in *listInput, t *task, now time.Time) bool {
	at := now.Sub(t.created)
	desired := "RUNNING"
	if in.DesiredStatus != nil {
		desired = *in.DesiredStatus
	}
	return at >= s.cfg.Delays.Visible &&
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

func (s *Server) stopTask(body []byte, _ *Fault) (any, *apiError) {
	var in struct {
		Cluster *string `json:"cluster"`
		Task    *string `json:"task"`
		Reason  *string `json:"reason"`
	}
	if e := decode(body, &in); e != nil {
		return nil, e
	}
	if e := s.checkCluster(in.Cluster); e != nil {
		return nil, e
	}
	t := s.findTask(value(in.Task))
	if t == nil {
		// The code and text are undocumented.
		return nil, invalidParameter("The referenced task was not found.")
	}
	now := time.Now()
	t.tags = nil // ECS API, StopTask: "Any tags associated with the task will be deleted".
	if at := now.Sub(t.created); at < t.life.stopping {
		reason := "Task stopped by user"
		if in.Reason != nil {
			reason = *in.Reason
		}
		s.end(t, stopCause{at, "UserInitiated", reason})
	}
	return map[string]any{"task": s.view(t, now, true)}, nil
}

func (s *Server) end(t *task, cause stopCause) {
	t.user = cause
	t.life = lifeOf(t.def, t.ov, s.cfg.Delays, t.user)
}

// Interrupt ends a task now for a reason of AWS's own, such as SpotInterruption
// with "Your Spot Task was interrupted." (ECS API, Task: stopCode).
func (s *Server) Interrupt(arn, stopCode, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tasks[arn]; t != nil {
		if at := time.Since(t.created); at < t.life.stopping {
			s.end(t, stopCause{at, stopCode, reason})
		}
	}
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
