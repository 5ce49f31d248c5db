package ecs

import (
	"maps"
	"slices"
	"time"
)

// TaskInfo is a task as a test wants to see it: as it is, neither late nor stale.
type TaskInfo struct {
	ARN           string            `json:"arn"`
	Family        string            `json:"family"`
	Revision      int               `json:"revision"`
	StartedBy     string            `json:"startedBy"`
	Group         string            `json:"group"`
	Provider      string            `json:"provider"`
	Subnet        string            `json:"subnet"`
	LastStatus    string            `json:"lastStatus"`
	DesiredStatus string            `json:"desiredStatus"`
	StopCode      string            `json:"stopCode,omitempty"`
	Reason        string            `json:"reason,omitempty"`
	CPU           int               `json:"cpu"`
	MemoryMiB     int               `json:"memoryMiB"`
	Created       time.Time         `json:"created"`
	Stopped       time.Time         `json:"stopped,omitzero"`
	Tags          map[string]string `json:"tags"`        // those it was started with
	Environment   map[string]string `json:"environment"` // of the overrides of all containers
}

// DefinitionInfo is a revision of a task definition.
type DefinitionInfo struct {
	Family   string            `json:"family"`
	Revision int               `json:"revision"`
	Status   string            `json:"status"`
	Tags     map[string]string `json:"tags"`
}

// SecretInfo is a secret without its value.
type SecretInfo struct {
	Name    string            `json:"name"`
	ARN     string            `json:"arn"`
	Bytes   int               `json:"bytes"`
	Deleted bool              `json:"deleted"`
	Tags    map[string]string `json:"tags"`
	// Written is when its versions were made, oldest first.
	Written []time.Time `json:"written"`
}

// Calls returns how often each action was called.
func (s *Server) Calls() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.callCounts()
}

func (s *Server) callCounts() map[string]int {
	out := make(map[string]int, len(s.calls))
	for k, v := range s.calls {
		out[k] = v.n
	}
	return out
}

// CallsWithin returns how often an action was called in the last d, an hour at
// most.
func (s *Server) CallsWithin(action string, d time.Duration) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls.within(action, d, time.Now())
}

// Throttled returns how many calls of each action were refused for their rate.
func (s *Server) Throttled() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.throttled)
}

// Permissions returns the permissions that were asked for, such as "caller
// ecs:RunTask", sorted.
func (s *Server) Permissions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.asked))
}

// TaskInfos returns all tasks remembered, oldest first.
func (s *Server) TaskInfos() []TaskInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taskInfos(time.Now())
}

func (s *Server) taskInfos(now time.Time) []TaskInfo {
	s.forget(now)
	out := make([]TaskInfo, 0, len(s.order))
	for _, arn := range s.order {
		out = append(out, s.tasks[arn].info(now))
	}
	return out
}

func (t *task) info(now time.Time) TaskInfo {
	at := now.Sub(t.created)
	cpu, memory := t.size()
	i := TaskInfo{
		ARN: t.arn, Family: *t.def.Family, Revision: t.def.revision, StartedBy: t.startedBy, Group: t.group,
		Provider: t.place.provider, Subnet: t.place.subnet, LastStatus: t.life.status(at), DesiredStatus: t.desired(at),
		CPU: cpu, MemoryMiB: memory, Created: t.created, Tags: tagMap(t.launchTags), Environment: map[string]string{},
	}
	if at >= t.life.stopping {
		i.StopCode, i.Reason = t.life.stopCode, t.life.reason
	}
	if at >= t.life.stopped {
		i.Stopped = t.created.Add(t.life.stopped)
	}
	for _, o := range t.ov.ContainerOverrides {
		for _, kv := range o.Environment {
			i.Environment[value(kv.Name)] = value(kv.Value)
		}
	}
	return i
}

func tagMap(tags []tag) map[string]string {
	out := make(map[string]string, len(tags))
	for _, t := range tags {
		out[value(t.Key)] = value(t.Value)
	}
	return out
}

// LiveByTag returns the ARNs of the tasks that are not STOPPED by the value of a
// tag that they were started with; "" for those without.
func (s *Server) LiveByTag(key string) map[string][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	out := map[string][]string{}
	for _, arn := range s.order {
		t := s.tasks[arn]
		if now.Sub(t.created) >= t.life.stopped {
			continue
		}
		v := ""
		for _, tg := range t.launchTags {
			if value(tg.Key) == key {
				v = value(tg.Value)
			}
		}
		out[v] = append(out[v], arn)
	}
	return out
}

// Definitions returns the revisions that exist, by family and revision.
func (s *Server) Definitions() []DefinitionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.definitionInfos()
}

func (s *Server) definitionInfos() []DefinitionInfo {
	out := []DefinitionInfo{}
	for _, family := range slices.Sorted(maps.Keys(s.families)) {
		for _, d := range s.families[family] {
			if !s.gone(d) {
				out = append(out, DefinitionInfo{Family: family, Revision: d.revision, Status: d.status(), Tags: tagMap(d.Tags)})
			}
		}
	}
	return out
}

// Secrets returns the secrets that exist or wait for their deletion, by name.
func (s *Server) Secrets() []SecretInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.secretInfos(time.Now())
}

func (s *Server) secretInfos(now time.Time) []SecretInfo {
	s.erase(now)
	out := []SecretInfo{}
	for _, name := range slices.Sorted(maps.Keys(s.secrets)) {
		sec := s.secrets[name]
		i := SecretInfo{Name: name, ARN: sec.arn, Deleted: !sec.deleted.IsZero(), Tags: tagMap(sec.tags)}
		if v := sec.version("", ""); v != nil {
			i.Bytes = v.size()
		}
		for _, v := range sec.versions {
			i.Written = append(i.Written, v.created)
		}
		slices.SortFunc(i.Written, time.Time.Compare)
		out = append(out, i)
	}
	return out
}

// Streams returns the names of a log group's streams that are there, sorted.
func (s *Server) Streams(group string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.groups[group]; g != nil {
		return g.names("", time.Now())
	}
	return nil
}
