package ecs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/burstlet/burstlet/test/fakeaws/s3"
)

// adminPath is below which a server serves what AWS does not have: GET report,
// POST fault (a Fault), POST interrupt?task=ARN&how=spot|retire|host, POST
// shortage?subnet=&provider=&on=true|false. It asks for no signature.
const adminPath = "/-/"

// Report is what there is to see of a server.
type Report struct {
	Now         time.Time        `json:"now"`
	Tasks       []TaskInfo       `json:"tasks"`
	Definitions []DefinitionInfo `json:"definitions"`
	Secrets     []SecretInfo     `json:"secrets"`
	Objects     []s3.Object      `json:"objects"`
	Calls       map[string]int   `json:"calls"`
	// LastMinute are the calls of the last 60 seconds.
	LastMinute  map[string]int `json:"lastMinute"`
	Throttled   map[string]int `json:"throttled"`
	Permissions []string       `json:"permissions"`
	Cost        Cost           `json:"cost"`
	Bill        Bill           `json:"bill"`
}

// Report returns all of it as of one moment.
func (s *Server) Report() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r := Report{
		Now: now, Tasks: s.taskInfos(now), Definitions: s.definitionInfos(), Secrets: s.secretInfos(now),
		Objects: s.s3.Objects(), Bill: s.bill(now),
		Calls: s.callCounts(), LastMinute: map[string]int{}, Throttled: maps.Clone(s.throttled),
		Permissions: slices.Sorted(maps.Keys(s.asked)), Cost: s.cost(now),
	}
	for action := range s.calls {
		if n := s.calls.within(action, time.Minute, now); n > 0 {
			r.LastMinute[action] = n
		}
	}
	return r
}

func (s *Server) serveAdmin(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch r.Method + " " + r.URL.Path {
	case "GET " + adminPath + "report":
		writeJSON(w, "application/json", s.Report())
		return
	case "POST " + adminPath + "fault":
		var f Fault
		d := json.NewDecoder(io.LimitReader(r.Body, maxBody))
		d.DisallowUnknownFields()
		if err := d.Decode(&f); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.Inject(f)
	case "POST " + adminPath + "interrupt":
		how := map[string]func(string){"spot": s.InterruptSpot, "retire": s.Retire, "host": s.FailHost}[q.Get("how")]
		if how == nil {
			http.Error(w, "how: want spot, retire or host", http.StatusBadRequest)
			return
		}
		how(q.Get("task"))
	case "POST " + adminPath + "shortage":
		s.Shortage(q.Get("subnet"), q.Get("provider"), q.Get("on") == "true")
	default:
		http.NotFound(w, r)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// Remote is a server in another process.
type Remote struct {
	URL string
}

// Report fetches a server's report.
func (r Remote) Report(ctx context.Context) (Report, error) {
	var out Report
	body, err := r.do(ctx, http.MethodGet, "report", nil, nil)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return out, fmt.Errorf("decode report: %w", err)
	}
	return out, nil
}

// Inject is Server.Inject.
func (r Remote) Inject(ctx context.Context, f Fault) error {
	body, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encode fault: %w", err)
	}
	_, err = r.do(ctx, http.MethodPost, "fault", nil, body)
	return err
}

// Interrupt ends a task: how is spot, retire or host.
func (r Remote) Interrupt(ctx context.Context, arn, how string) error {
	_, err := r.do(ctx, http.MethodPost, "interrupt", url.Values{"task": {arn}, "how": {how}}, nil)
	return err
}

// Shortage is Server.Shortage.
func (r Remote) Shortage(ctx context.Context, subnet, provider string, on bool) error {
	_, err := r.do(
		ctx, http.MethodPost, "shortage", url.Values{"subnet": {subnet}, "provider": {provider}, "on": {fmt.Sprint(on)}}, nil,
	)
	return err
}

func (r Remote) do(ctx context.Context, method, what string, query url.Values, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.URL+adminPath+what+"?"+query.Encode(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	defer func() { _ = resp.Body.Close() }()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: read: %w", what, err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return nil, fmt.Errorf("%s: %s: %s", what, resp.Status, bytes.TrimSpace(out))
	}
	return out, nil
}
