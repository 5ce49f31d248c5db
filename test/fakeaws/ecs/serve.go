package ecs

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// service is one of the APIs that are served at the same address, told apart by
// X-Amz-Target.
type service struct {
	name        string // as in SigV4's scope and in IAM actions
	target      string // prefix of X-Amz-Target
	contentType string
	namespace   string // of error types
	actions     map[string]handler
}

// handler answers a call. It runs with the server's lock held. Its result is
// written as JSON unless it is a waitUntil.
type handler func(c *request) (any, *apiError)

// request is a call that is being answered.
type request struct {
	action string
	body   []byte
	fault  *Fault // nil if none is due
	// arrived is when the call began, now when this try of it did.
	arrived, now time.Time
	// principal is who calls.
	principal Principal
	// host is where the caller reached the server.
	host string
}

// waitUntil is an answer that is not ready: ask the handler again when something
// changed, at the latest then.
type waitUntil time.Time

// Call is a call as hooks see it.
type Call struct {
	// N counts the calls of a server from 1.
	N int
	// Service is ecs, logs, secretsmanager, s3, sqs, ecr or servicequotas.
	Service, Action string
	// Error is the AWS code of the answer, after the call.
	Error string
}

// Hook sets functions (nil: none) that are called before and after every call,
// without a lock and in the goroutine that serves it. An error from before drops
// the connection with nothing done; an error from after drops it when all was done.
func (s *Server) Hook(before, after func(Call) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

// maxBody bounds a request; a definition and a secret may have 64 KiB.
const maxBody = 1 << 20

func (s *Server) services() []*service {
	return []*service{
		{"ecs", "AmazonEC2ContainerServiceV20141113.", contentType, "com.amazonaws.ecs#", s.ecsActions()},
		{"logs", "Logs_20140328.", contentType, "", s.logsActions()},
		{"secretsmanager", "secretsmanager.", contentType, "", s.secretActions()},
		{"sqs", "AmazonSQS.", contentTypeSQS, "com.amazonaws.sqs#", s.sqsActions()},
		{"ecr", "AmazonEC2ContainerRegistry_V20150921.", contentType, "", s.registryActions()},
		{"servicequotas", "ServiceQuotasV20190624.", contentType, "", s.quotaActions()},
	}
}

func (s *Server) ecsActions() map[string]handler {
	return map[string]handler{
		"RegisterTaskDefinition":     s.registerTaskDefinition,
		"DeregisterTaskDefinition":   s.deregisterTaskDefinition,
		"DeleteTaskDefinitions":      s.deleteTaskDefinitions,
		"DescribeTaskDefinition":     s.describeTaskDefinition,
		"ListTaskDefinitions":        s.listTaskDefinitions,
		"ListTaskDefinitionFamilies": s.listFamilies,
		"RunTask":                    s.runTask,
		"DescribeTasks":              s.describeTasks,
		"ListTasks":                  s.listTasks,
		"StopTask":                   s.stopTask,
		"ExecuteCommand":             s.executeCommand,
		"DescribeClusters":           s.describeClusters,
		"TagResource":                s.tagResource,
		"UntagResource":              s.untagResource,
		"ListTagsForResource":        s.listTags,
	}
}

// route finds the service and the handler of a call.
func (s *Server) route(target string) (svc *service, action string, h handler) {
	for _, svc := range s.apis {
		if action, ok := strings.CutPrefix(target, svc.target); ok {
			return svc, action, svc.actions[action]
		}
	}
	return nil, "", nil
}

// ServeHTTP answers one call; paths below /-/ are the server's own (see Report).
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, adminPath) {
		s.serveAdmin(w, r)
		return
	}
	if strings.HasPrefix(r.URL.Path, dataChannelPath) {
		s.serveDataChannel(w, r)
		return
	}
	dated(w)
	if s.serveOther(w, r) {
		return
	}
	svc, action, handle := s.route(r.Header.Get("X-Amz-Target"))
	if r.Method != http.MethodPost || handle == nil {
		writeError(w, svc, failf("UnknownOperationException", "%s", ""))
		return
	}
	body, e := bodyOf(w, r, svc)
	if e != nil {
		writeError(w, svc, e)
		return
	}
	call, before, after := s.enter(svc.name, action)
	if before != nil && before(call) != nil {
		panic(http.ErrAbortHandler)
	}
	c := &request{action: action, body: body, host: r.Host, arrived: time.Now()}
	out, e := s.answer(r, svc, handle, c)
	if e != nil {
		call.Error = e.Code
		if s.cfg.Reworded {
			e = e.reworded()
		}
	}
	if after != nil && after(call) != nil || c.fault != nil && c.fault.LoseReply {
		panic(http.ErrAbortHandler)
	}
	reply(w, svc, c, out, e)
}

// serveOther answers a call of another protocol than awsJson; false: it is none.
func (s *Server) serveOther(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case isS3(r):
		s.serveS3(w, r)
	case isQuery(r):
		s.serveQuery(w, r)
	default:
		return false
	}
	return true
}

// reply writes an answer, or what a fault makes of it.
func reply(w http.ResponseWriter, svc *service, c *request, out any, e *apiError) {
	switch {
	case e != nil:
		writeError(w, svc, e)
	case c.fault != nil && c.fault.Garble:
		writeJSON(w, svc.contentType, garbled)
	default:
		writeJSON(w, svc.contentType, out)
	}
}

// bodyOf reads a request; an empty one is {}.
func bodyOf(w http.ResponseWriter, r *http.Request, svc *service) ([]byte, *apiError) {
	if ct := r.Header.Get("Content-Type"); ct != svc.contentType {
		return nil, failf("SerializationException", "unexpected content type %q", ct)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, failf("SerializationException", "read body: %v", err)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	return body, nil
}

// garbled has members of answers with wrong types.
var garbled = map[string]any{
	"tasks": "garbled", "task": "garbled", "taskArns": 1, "taskDefinition": 1, "taskDefinitionArns": 1,
	"taskDefinitions": 1, "families": 1,
	"clusters": 1, "events": "garbled", "logGroups": 1, "logStreams": 1, "ARN": 1, "SecretList": "garbled",
	"SecretString": 1,
	"Messages":     "garbled", "Attributes": 1, "QueueUrl": 1, "Successful": 1,
}

// enter counts the call.
func (s *Server) enter(service, action string) (c Call, before, after func(Call) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls.add(action, time.Now())
	s.billed[billedCall{service, action}]++
	return Call{N: s.calls.total(), Service: service, Action: action}, s.before, s.after
}

// answer lets the handler do its work, after the checks that all calls share,
// and again as long as it wants to wait and the caller does too.
func (s *Server) answer(r *http.Request, svc *service, handle handler, c *request) (any, *apiError) {
	s.mu.Lock()
	c.fault = s.takeFault(svc.name, c.action)
	e := s.admit(r, svc, c)
	s.mu.Unlock()
	if e != nil {
		return nil, e
	}
	for {
		out, changed, e := s.try(handle, c)
		until, wait := out.(waitUntil)
		if !wait {
			return out, e
		}
		timer := time.NewTimer(time.Until(time.Time(until)))
		select {
		case <-changed:
		case <-timer.C:
		case <-r.Context().Done():
			timer.Stop()
			panic(http.ErrAbortHandler)
		}
		timer.Stop()
	}
}

// admit authenticates, applies the fault that is due and throttles.
func (s *Server) admit(r *http.Request, svc *service, c *request) *apiError {
	var e *apiError
	if c.principal, e = s.authenticate(r, svc.name); e != nil {
		return e
	}
	if c.fault != nil && c.fault.Code != "" {
		return &apiError{Code: c.fault.Code, Message: c.fault.Message, Status: c.fault.Status}
	}
	return s.throttle(svc.name, c.action, c.arrived)
}

func (s *Server) try(handle handler, c *request) (out any, changed chan struct{}, e *apiError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.now = time.Now()
	s.forget(c.now)
	s.pump(c.now)
	s.report(c.now)
	s.acting = c.principal
	out, e = handle(c)
	s.acting = Caller
	if _, wait := out.(waitUntil); wait {
		changed = make(chan struct{})
		s.waiters = append(s.waiters, changed)
	}
	return out, changed, e
}

// wake lets calls that wait look again. It is called when tasks or queues changed.
func (s *Server) wake() {
	for _, w := range s.waiters {
		close(w)
	}
	s.waiters = nil
}

// page cuts a page out of a listing and returns the token of the next one, ""
// for none. A token is where the next page starts: the item that comes first, the
// one before it and their number, for when items are gone by then.
func page(items []string, token *string, limit int) (out []string, next string, ok bool) {
	start := 0
	if token != nil && *token != "" {
		text, good := decodeToken(*token)
		parts := strings.Split(text, "|")
		if !good || len(parts) != 3 {
			return nil, "", false
		}
		n, err := strconv.Atoi(parts[0])
		if err != nil || n < 0 {
			return nil, "", false
		}
		start = min(n, len(items))
		if i := slices.Index(items, parts[1]); i >= 0 {
			start = i
		} else if i := slices.Index(items, parts[2]); i >= 0 {
			start = i + 1
		}
	}
	out = nonNil(slices.Clone(items[start:min(len(items), start+limit)]))
	if end := start + len(out); end < len(items) {
		next = encodeToken(strconv.Itoa(end) + "|" + items[end] + "|" + items[end-1])
	}
	return out, next, true
}

// pageSize is a maxResults within its bounds.
func pageSize(n *int32, most, standard int) (int, *apiError) {
	if n == nil {
		return standard, nil
	}
	if *n < 1 || int(*n) > most {
		return 0, invalidParameter("maxResults must be between 1 and %d.", most)
	}
	return int(*n), nil
}
