package cri

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/localstorage"
)

// limitedPod has an emptyDir of at most 10 bytes.
func limitedPod(uid string) *corev1.Pod {
	pod := testPod(uid)
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("10"))},
	}}}
	return pod
}

// TestHostKnowsLimits: a pod's limits stand on its host from its launch, if it has any and
// may be evicted.
func TestHostKnowsLimits(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	critical := limitedPod("u2")
	critical.Spec.Priority = new(int32(2_000_000_000))
	limits := localstorage.Limits{Volumes: []localstorage.Limit{{Name: "v", Bytes: 10, Text: "10"}}}
	for _, tt := range []struct {
		pod  *corev1.Pod
		want *localstorage.Limits
	}{{limitedPod("u1"), &limits}, {critical, nil}, {testPod("u3"), nil}} {
		runPod(t, r, tt.pod)
		var got *localstorage.Limits
		text, err := os.ReadFile(filepath.Join(r.convert.LogDir(convert.PodRef(tt.pod)), host.StorageLimits))
		if err == nil {
			must(t, json.Unmarshal(text, &got))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("pod %s: -want +got:\n%s", tt.pod.UID, diff)
		}
	}
}

// helperSessions are those of a host's helper, whose records are made by the test.
type helperSessions struct {
	host.Host
	mu      sync.Mutex
	open    chan struct{}
	err     error
	records []host.Eviction
	reads   atomic.Int32
}

func (s *helperSessions) session(context.Context) (<-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open, s.err
}

// next ends the session and begins another; records are then those of the host.
func (s *helperSessions) next(records ...host.Eviction) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != nil {
		close(s.open)
	}
	s.open, s.records = make(chan struct{}), records
}

func (s *helperSessions) Evicted(ctx context.Context, _ host.EvictedRequest) ([]host.Eviction, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	s.reads.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records, nil
}

// TestFactsTellOfEvictions: they are read once in each session, and stand in the facts of all
// that is read after it has begun.
func TestFactsTellOfEvictions(t *testing.T) {
	w := newWorld(t)
	s := &helperSessions{Host: w.host}
	w.host, w.session = s, s.session
	s.next()
	r, _ := w.connect(t)
	list := func() map[types.UID]*backend.Eviction {
		t.Helper()
		facts, err := pods{r}.List(t.Context())
		must(t, err)
		got := map[types.UID]*backend.Eviction{}
		for _, f := range facts {
			got[f.UID] = f.Evicted
		}
		return got
	}
	if list(); s.reads.Load() != 0 {
		t.Error("it was asked without a pod")
	}
	runPod(t, r, limitedPod("u1"), "main")
	runPod(t, r, limitedPod("u2"), "main")
	for range 3 {
		if diff := cmp.Diff(map[types.UID]*backend.Eviction{"u1": nil, "u2": nil}, list()); diff != "" {
			t.Error(diff)
		}
		if f := inspect(t, r, "u1"); f.Evicted != nil {
			t.Errorf("%+v", f.Evicted)
		}
	}
	if n := s.reads.Load(); n != 1 {
		t.Errorf("asked %d times in one session", n)
	}
	at := time.Unix(1e9, 0).UTC()
	s.next(host.Eviction{UID: "u2", Limit: "l", Used: 11, Message: "m", Time: at})
	want := &backend.Eviction{Limit: "l", Used: 11, Message: "m", At: at}
	if diff := cmp.Diff(want, inspect(t, r, "u2").Evicted); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[types.UID]*backend.Eviction{"u1": nil, "u2": want}, list()); diff != "" {
		t.Error(diff)
	}
	if n := s.reads.Load(); n != 2 {
		t.Errorf("asked %d times in two sessions", n)
	}
	close(s.open) // and the next has not begun yet
	if list(); s.reads.Load() != 3 {
		t.Error("what a session read was believed after its end")
	}
	s.open, s.err = nil, backend.Errorf(backend.ErrUnavailable, "no helper")
	_, err := pods{r}.List(t.Context())
	wantClass(t, err, backend.ErrUnavailable)
}
