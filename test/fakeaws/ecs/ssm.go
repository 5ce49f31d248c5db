package ecs

import (
	"crypto/rand"
	"encoding/base32"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode"
)

// SessionConfig is how sessions of ECS Exec behave. The zero value loses nothing,
// and is as slow as the real agent.
type SessionConfig struct {
	// Idle ends a session in which nothing is sent or shown; zero is 20 minutes.
	Idle time.Duration
	// Limit is how many sessions a container has at once; zero is 2.
	Limit int
	// Fast leaves out the agent's pauses: one second before it reads the first
	// output, and a millisecond after each read of 1024 bytes.
	Fast bool
	// Faults happen to frames, either way.
	Faults FrameFaults
	// Latency is how long a frame is under way.
	Latency time.Duration
}

// FrameFaults are done to every n-th frame of each way of a session; 0 is never.
type FrameFaults struct {
	// Drop loses it, Double delivers it twice, Swap delivers it after the next.
	Drop, Double, Swap int
}

// Defaults of sessions (ECS developer guide, "Monitor Amazon ECS containers with
// ECS Exec": the idle timeout "can't be overridden"; amazon-ecs-agent,
// agent/engine/execcmd: the agent's SessionWorkersLimit).
const (
	sessionIdle  = 20 * time.Minute
	sessionLimit = 2
	// tokenLife is how long a session waits to be opened: undocumented.
	tokenLife = time.Minute
)

// sessions are those that were asked for.
type sessions struct {
	byID map[string]*session
	// running counts those of each container, by task and name.
	running map[string]int
	// dead are the containers whose agent has died, by task and name.
	dead   map[string]bool
	opened int
}

// session is one of ECS Exec.
type session struct {
	id, token       string
	task, container string
	argv            string
	asked           time.Time
	used            bool
}

// rolePermissions are what the agent in the task does as the task role (ECS
// developer guide, "Task IAM role": "IAM permissions required for ECS Exec").
var rolePermissions = []string{
	"ssmmessages:CreateControlChannel", "ssmmessages:CreateDataChannel", "ssmmessages:OpenControlChannel",
	"ssmmessages:OpenDataChannel",
}

// Texts of refusals.
const (
	textNotInteractive = "Interactive is the only mode supported currently."
	textNotEnabled     = "The execute command failed because execute command was not enabled when the task was run or " +
		"the execute command agent isn’t running. Wait and try again or run a new task with execute command enabled " +
		"and try again."
	textNotConnected = "The execute command failed due to an internal error. Try again later."
)

// executeCommand is ECS API, ExecuteCommand. Which of its two errors a task gets
// whose agent does not run is undocumented.
func (s *Server) executeCommand(c *request) (any, *apiError) {
	var in struct {
		Cluster     *string `json:"cluster"`
		Container   *string `json:"container"`
		Command     *string `json:"command"`
		Interactive *bool   `json:"interactive"`
		Task        *string `json:"task"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	if e := s.checkCluster(in.Cluster); e != nil {
		return nil, e
	}
	// Service Authorization Reference: ExecuteCommand: cluster and task.
	for _, resource := range []string{s.taskArn(value(in.Task)), s.arn("cluster/" + s.cfg.Cluster)} {
		if e := s.authorize("ecs:ExecuteCommand", resource); e != nil {
			return nil, e
		}
	}
	if in.Interactive == nil || !*in.Interactive {
		return nil, invalidParameter("%s", textNotInteractive)
	}
	if strings.TrimSpace(value(in.Command)) == "" {
		return nil, invalidParameter("Command cannot be empty.")
	}
	t, name, e := s.target(value(in.Task), in.Container, c.now)
	if e != nil {
		return nil, e
	}
	ses := s.newSession(t.arn, name, *in.Command, c.now)
	scheme := "ws://" // over TLS: wss
	return map[string]any{
		"clusterArn": s.arn("cluster/" + s.cfg.Cluster), "taskArn": t.arn, "containerName": name,
		"containerArn": s.arn("container/" + s.cfg.Cluster + "/" + ses.id), "interactive": true,
		"session": map[string]any{
			"sessionId": ses.id, "tokenValue": ses.token,
			"streamUrl": scheme + c.host + dataChannelPath + ses.id + "?role=publish_subscribe",
		},
	}, nil
}

// target is the container that a command is for, if its agent is connected.
func (s *Server) target(task string, container *string, now time.Time) (*task, string, *apiError) {
	t := s.findTask(task)
	if t == nil || now.Sub(t.created) < s.cfg.Delays.Visible {
		return nil, "", invalidParameter("The referenced task was not found.") // undocumented
	}
	name := value(container)
	if container == nil && len(t.def.ContainerDefinitions) == 1 {
		name = *t.def.ContainerDefinitions[0].Name
	}
	// ECS API, ExecuteCommand: container: "required if the task has multiple
	// containers".
	i := t.def.index(name)
	if i < 0 {
		return nil, "", invalidParameter("The container %q is not in the task.", name)
	}
	at := now.Sub(t.created)
	if !t.execute || at >= t.life.stopping {
		return nil, "", invalidParameter("%s", textNotEnabled)
	}
	if s.execAgent(t, &t.def.ContainerDefinitions[i], &t.life.containers[i], at).LastStatus != "RUNNING" ||
		!s.mayConnect() {
		return nil, "", failf("TargetNotConnectedException", "%s", textNotConnected)
	}
	return t, name, nil
}

// mayConnect is true where the task role may do what the agent does.
func (s *Server) mayConnect() bool {
	ok := true
	for _, action := range rolePermissions {
		ok = s.allowed(TaskRole, action, "*") && ok
	}
	return ok
}

func (s *Server) newSession(task, container, command string, now time.Time) *session {
	if s.sessions.byID == nil {
		s.sessions.byID, s.sessions.running = map[string]*session{}, map[string]int{}
	}
	for id, old := range s.sessions.byID {
		if now.Sub(old.asked) > tokenLife {
			delete(s.sessions.byID, id)
		}
	}
	ses := &session{
		id: "ecs-execute-command-" + random(), token: random() + random() + random(), task: task, container: container,
		argv: command, asked: now,
	}
	s.sessions.byID[ses.id] = ses
	return ses
}

func random() string {
	b := make([]byte, 10)
	_, _ = rand.Read(b) // never fails: crypto/rand
	return strings.ToLower(base32.StdEncoding.EncodeToString(b))
}

// redeem takes the session that a token opens: once, and not for long.
func (s *Server) redeem(id, token string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	ses := s.sessions.byID[id]
	if ses == nil || ses.used || ses.token != token || time.Since(ses.asked) > tokenLife {
		return nil
	}
	ses.used = true
	return ses
}

// enterSession counts a session of a container; it is false while there are too
// many, which the agent then lets wait.
func (s *Server) enterSession(ses *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.cfg.Sessions.Limit
	if limit == 0 {
		limit = sessionLimit
	}
	key := ses.task + " " + ses.container
	if s.sessions.running[key] >= limit {
		return false
	}
	s.sessions.running[key]++
	s.sessions.opened++
	return true
}

func (s *Server) leaveSession(ses *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions.running[ses.task+" "+ses.container]--
}

// Sessions is how many sessions of ECS Exec are open, and were opened so far.
func (s *Server) Sessions() (open, opened int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.sessions.running {
		open += n
	}
	return open, s.sessions.opened
}

// signedFor is true for a request to open a data channel that somebody signed, as
// the current plugin does; that the service wants it is undocumented.
func (s *Server) signedFor(r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, e := s.authenticate(r, "ssmmessages")
	return e == nil
}

var errUnclosed = errors.New("a quote is not closed")

// splitWords splits a command as the agent does in containers: without a shell, by
// shell quoting alone (amazon-ssm-agent, agent/session/shell/shell_unix.go:
// ContainerMode, shlex.Split).
func splitWords(command string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune
	escaped, inWord := false, false
	for _, r := range command {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, inWord = r, true
		case unicode.IsSpace(r):
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quote != 0 || escaped {
		return nil, errUnclosed
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
