package ecs

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/backendtest"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/kit/background"
)

// TestContract runs the contract on a node with all that can be configured, when
// all goes well, when answers are old and late, within AWS's rates, and over a
// way on which every fourth call fails.
func TestContract(t *testing.T) {
	const grace = "the grace of a task stands in its definition, and no supervisor runs here that could shorten it"
	const file = "a script has no files: see the tests with real containers"
	skip := map[string]string{
		"stop/grace 0 kills at once":                               grace,
		"stop/a shorter grace replaces a longer":                   grace,
		"remove/kills what runs":                                   grace,
		"remove/leaves other pods alone":                           grace,
		"files/contents are what containers read":                  file,
		"exit/termination message of its file":                     file,
		"exit/termination message of its file rather than its log": file,
	}
	quick := stub.Delays{
		Provision: time.Second, Pull: time.Second, Deprovision: time.Second, Visible: 500 * time.Millisecond,
	}
	old := quick
	old.Visible, old.Stale, old.Ingest = 2*time.Second, time.Second, 2*time.Second
	old.Listed, old.Event = 10*time.Second, 2*time.Second
	prompt := stub.Kindness{LogsAtOnce: true}
	lends := []string{"Run", "Costs", "Calls", "Queues", "Sweep", "Refresh", "Logs", "Events"}
	for name, tc := range map[string]struct {
		server stub.Config
		slack  time.Duration
		faulty bool
	}{
		"all goes well": {
			server: stub.Config{Delays: quick, Kindness: prompt}, slack: 3 * time.Second,
		},
		"answers are old and late": {
			server: stub.Config{Delays: old, Events: stub.EventFaults{Double: 3, Lose: 3}}, slack: 10 * time.Second,
		},
		"AWS's rates, other people's containers": {
			server: stub.Config{Delays: quick, Kindness: prompt, Throttles: true, GuardDuty: true}, slack: 3 * time.Second,
		},
		"AWS's rates, in words that nobody knows": {
			server: stub.Config{Delays: quick, Kindness: prompt, Throttles: true, Reworded: true}, slack: 3 * time.Second,
		},
		"every fourth call fails": {server: stub.Config{Delays: quick}, slack: 10 * time.Second, faulty: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := tc.server
			cfg.LogGroups, cfg.Queues = []string{"/burstlet"}, []string{"events"}
			backendtest.Run(t, backendtest.Factory{
				New: func(t *testing.T) func() backend.Backend {
					s := stub.New(cfg)
					return func() backend.Backend {
						b := open(t, wholeConfig(s, tc.faulty))
						background.Run(t, b.RunFreely)
						return withoutSessions(b)
					}
				},
				Lends:  lends,
				Around: func(t *testing.T, check func(*testing.T)) { synctest.Test(t, check) },
				Image:  "busybox:1", MissingImage: "registry.example/missing:1",
				Eventually: 20 * time.Second, Poll: 200 * time.Millisecond,
				// ECS has no time of the end of a container in a task that goes on: it
				// is when that was first seen, by a new process after the one before held it
				// back until its report could be read.
				Slack: tc.slack,
				Skip:  skip,
			})
		})
	}
}

// withoutSessions leaves out what needs containers that are real: see
// TestContractOfSessions.
func withoutSessions(b backend.Backend) backend.Backend {
	b.Exec, b.Attach, b.Forward, b.Dial, b.Stats = nil, nil, nil, nil, nil
	return b
}

// wholeConfig is a node with all that can be configured.
func wholeConfig(s *stub.Server, faulty bool) Config {
	cfg := configOf(s)
	cfg.Images = anyImages{}
	cfg.TaskImage, cfg.LogGroup, cfg.EventQueueURL = "burstlet-task:1", "/burstlet", s.QueueURL("events")
	cfg.ExecutionRoleARN = "arn:aws:iam::123456789012:role/execution"
	cfg.TaskRoleARN = "arn:aws:iam::123456789012:role/task"
	if faulty {
		cfg.HTTPClient = &http.Client{Transport: &badWay{inner: s.Client().Transport, calls: map[string]int{}}}
	}
	return cfg
}

// badWay fails every fourth call of each action, one way after the other: it does
// not arrive, its reply is lost, AWS has a fault, AWS throttles.
type badWay struct {
	inner http.RoundTripper
	mu    sync.Mutex
	calls map[string]int
}

// RoundTrip makes or fails a call.
func (b *badWay) RoundTrip(r *http.Request) (*http.Response, error) {
	action := r.Header.Get("X-Amz-Target")
	b.mu.Lock()
	n := b.calls[action]
	b.calls[action]++
	b.mu.Unlock()
	if n%4 != 2 {
		return b.inner.RoundTrip(r)
	}
	switch n / 4 % 4 {
	case 0:
		return nil, errors.New("connection refused")
	case 1:
		if resp, err := b.inner.RoundTrip(r); err == nil {
			_ = resp.Body.Close() // it is in memory
		}
		return nil, io.ErrUnexpectedEOF
	case 2:
		return answer(r, http.StatusInternalServerError, "ServerException"), nil
	default:
		return answer(r, http.StatusBadRequest, "ThrottlingException"), nil
	}
}

// answer is an error of AWS's.
func answer(r *http.Request, status int, code string) *http.Response {
	return &http.Response{
		StatusCode: status, Request: r, Header: http.Header{"Content-Type": {"application/x-amz-json-1.1"}},
		Body: io.NopCloser(strings.NewReader(`{"__type":"` + code + `","message":"Rate exceeded"}`)),
	}
}

// anyImages are those of a registry that never fails: root's, which run nothing.
type anyImages struct{}

func (anyImages) Config(context.Context, string, string, []backend.Credential) (taskdef.ImageConfig, error) {
	return taskdef.ImageConfig{Entrypoint: []string{"true"}}, nil
}
