package local

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/localstorage"
)

// ListContainerStats tells of the layer of container c.
func (r *logRuntime) ListContainerStats(
	_ context.Context, q *runtimeapi.ListContainerStatsRequest,
) (*runtimeapi.ListContainerStatsResponse, error) {
	if q.GetFilter().GetLabelSelector()["node"] != "n" {
		return nil, errors.New("the request did not arrive")
	}
	stats := func(id string, bytes uint64) *runtimeapi.ContainerStats {
		return &runtimeapi.ContainerStats{
			Attributes: &runtimeapi.ContainerAttributes{Id: id, Metadata: &runtimeapi.ContainerMetadata{Name: "app"}},
			Cpu:        &runtimeapi.CpuUsage{Timestamp: 1 << 60},
			WritableLayer: &runtimeapi.FilesystemUsage{
				Timestamp: 1 << 60, FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/m"},
				UsedBytes: &runtimeapi.UInt64Value{Value: bytes}, InodesUsed: &runtimeapi.UInt64Value{Value: 7},
			},
		}
	}
	return &runtimeapi.ListContainerStatsResponse{Stats: []*runtimeapi.ContainerStats{
		stats("other", 1<<40), stats("c", r.layer),
	}}, nil
}

// StopContainer notes what stands recorded by then.
func (r *logRuntime) StopContainer(
	_ context.Context, q *runtimeapi.StopContainerRequest,
) (*runtimeapi.StopContainerResponse, error) {
	if q.GetContainerId() != "c" || q.GetTimeout() != 2 {
		return nil, errors.New("another container, or grace")
	}
	r.stops.Add(1)
	if _, err := readEviction(r.podLogs()); err != nil {
		return nil, err
	}
	return &runtimeapi.StopContainerResponse{}, r.stopFails
}

// podLogs is the log directory of its pod.
func (r *logRuntime) podLogs() string { return filepath.Dir(filepath.Dir(r.log)) }

// serveLimited serves a runtime whose pod has those limits, and says how it is kept.
func serveLimited(t *testing.T, limits *localstorage.Limits) (*logRuntime, host.Rotation) {
	t.Helper()
	l, r := serveLogs(t)
	stats, err := proto.Marshal(&runtimeapi.ListContainerStatsRequest{
		Filter: &runtimeapi.ContainerStatsFilter{LabelSelector: map[string]string{"node": "n"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.MaxSize, r.Keep.Evict = 0, &host.Evict{Stats: stats, Grace: 2 * time.Second}
	mark := host.Ownership{Node: "n"}
	put(t, filepath.Join(l.podLogs(), host.LogMark), mark.Bytes())
	if limits != nil {
		text, err := json.Marshal(limits)
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(l.podLogs(), host.StorageLimits), text)
	}
	return l, r
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
		t.Fatal(err)
	}
}

func limit(name string, bytes int64) localstorage.Limit {
	return localstorage.Limit{Name: name, Bytes: bytes, Text: "some"}
}

// TestKeeperEvicts: a pod that is over a limit is recorded, then stopped, and told of; one
// that keeps to its limits, or has none, runs on.
func TestKeeperEvicts(t *testing.T) {
	for name, tt := range map[string]struct {
		limits *localstorage.Limits
		layer  uint64
		volume int // its bytes
		want   string
	}{
		"no limit": {nil, 1 << 30, 1 << 20, ""},
		"below": {
			&localstorage.Limits{Volumes: []localstorage.Limit{limit("v", 1<<20)}, Pod: new(limit("", 1<<20))}, 10, 100, "",
		},
		"an emptyDir is over": {
			&localstorage.Limits{Volumes: []localstorage.Limit{limit("v", 64<<10)}}, 0, 128 << 10, localstorage.EmptyDirLimit,
		},
		"the pod is over, by its volume": {
			&localstorage.Limits{Pod: new(limit("", 64<<10))}, 0, 128 << 10, localstorage.PodLimit,
		},
		"a container is over, by its layer": {
			&localstorage.Limits{Containers: []localstorage.Limit{limit("app", 64<<10)}}, 128 << 10, 0,
			localstorage.ContainerLimit,
		},
		"a container is over, by its log": { // of one block
			&localstorage.Limits{Containers: []localstorage.Limit{limit("app", 100)}}, 0, 0, localstorage.ContainerLimit,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, r := serveLimited(t, tt.limits)
			l.layer = tt.layer
			put(t, filepath.Join(host.PodDir{Root: r.Keep.Root, UID: "uid"}.Volume("v"), "f"), make([]byte, tt.volume))
			run := t.TempDir()
			h := New(Options{RunRoot: run})
			begin := time.Now()
			if more, err := h.keepRound(t.Context(), r); !more || err != nil {
				t.Errorf("more %t, %v", more, err)
			}
			got, err := New(Options{RunRoot: run}).Evicted(
				t.Context(), host.EvictedRequest{Root: r.Keep.Root, Node: "n", PodLogs: r.Keep.PodLogs},
			)
			if err != nil {
				t.Fatal(err)
			}
			if tt.want == "" {
				if len(got) > 0 || l.stops.Load() > 0 {
					t.Errorf("%+v, stopped %d times", got, l.stops.Load())
				}
				return
			}
			if len(got) != 1 || got[0].UID != "uid" || got[0].Limit != tt.want || got[0].Used < 4096 || got[0].Message == "" ||
				got[0].Time.Before(begin) || l.stops.Load() != 1 {
				t.Errorf("%+v, stopped %d times", got, l.stops.Load())
			}
		})
	}
}

func fullPod(t *testing.T) (*logRuntime, host.Rotation, host.EvictedRequest) {
	t.Helper()
	l, r := serveLimited(t, &localstorage.Limits{Containers: []localstorage.Limit{limit("app", 100)}})
	return l, r, host.EvictedRequest{Root: r.Keep.Root, Node: "n", PodLogs: r.Keep.PodLogs}
}

// TestNobodyIsEvictedBesideASession: a keeper that a session leaves late does not act behind
// the back of another one, whose reading stays true; nothing of the locks is left.
func TestNobodyIsEvictedBesideASession(t *testing.T) {
	l, r, asked := fullPod(t)
	run := t.TempDir()
	keeper, first, second := New(Options{RunRoot: run}), New(Options{RunRoot: run}), New(Options{RunRoot: run})
	for _, session := range []*Host{first, second, second} {
		if got, err := session.Evicted(t.Context(), asked); err != nil || len(got) > 0 {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	for _, session := range []*Host{first, second} {
		if more, err := keeper.keepRound(t.Context(), r); !more || err != nil || l.stops.Load() > 0 {
			t.Errorf("more %t, %v, stopped %d times", more, err, l.stops.Load())
		}
		if err := session.Leave(); err != nil {
			t.Error(err)
		}
	}
	if _, err := keeper.keepRound(t.Context(), r); err != nil || l.stops.Load() != 1 {
		t.Errorf("%v, stopped %d times", err, l.stops.Load())
	}
	if left, err := os.ReadDir(run); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestSessionWaitsForARecord: what a keeper is about to record is read.
func TestSessionWaitsForARecord(t *testing.T) {
	l, _, asked := fullPod(t)
	run := t.TempDir()
	held, err := New(Options{RunRoot: run}).alone(asked.Root, asked.Node)
	if held == nil || err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	session := New(Options{RunRoot: run})
	if got, err := session.Evicted(ctx, asked); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("beside a keeper: %v, %v", got, err)
	}
	want := []host.Eviction{{UID: "uid", Limit: "l", Used: 7, Message: "m", Time: time.Unix(9, 0).UTC()}}
	if err := errors.Join(writeEviction(l.podLogs(), want[0]), leaveLock(held)); err != nil {
		t.Fatal(err)
	}
	got, err := session.Evicted(t.Context(), asked)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
}

// TestEvictionGoesOn: whatever became of the keeper that recorded it, the next one stops what
// still runs, and records nothing again.
func TestEvictionGoesOn(t *testing.T) {
	l, r, asked := fullPod(t)
	l.stopFails = errors.New("not now")
	run := t.TempDir()
	if more, err := New(Options{RunRoot: run}).keepRound(t.Context(), r); !more || err == nil {
		t.Errorf("more %t, %v", more, err)
	}
	put(t, filepath.Join(l.podLogs(), host.StorageLimits), []byte("{}")) // it is over none any more
	l.stopFails = nil
	before, err := readEviction(l.podLogs())
	if err != nil {
		t.Fatal(err)
	}
	if more, err := New(Options{RunRoot: run}).keepRound(t.Context(), r); !more || err != nil || l.stops.Load() != 2 {
		t.Errorf("more %t, %v, stopped %d times", more, err, l.stops.Load())
	}
	got, err := New(Options{RunRoot: run}).Evicted(t.Context(), asked)
	if diff := cmp.Diff([]host.Eviction{before}, got); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
}

// TestNothingIsStoppedWithoutARecord: whoever connects would start it again.
func TestNothingIsStoppedWithoutARecord(t *testing.T) {
	l, r, _ := fullPod(t)
	inTheWay := filepath.Join(l.podLogs(), host.EvictedMark+tmpSuffix, "d")
	put(t, inTheWay, nil)
	h := New(Options{RunRoot: t.TempDir()})
	if more, err := h.keepRound(t.Context(), r); !more || err == nil || l.stops.Load() > 0 {
		t.Errorf("more %t, %v, stopped %d times", more, err, l.stops.Load())
	}
	if err := os.RemoveAll(filepath.Dir(inTheWay)); err != nil {
		t.Fatal(err)
	}
	if _, err := h.keepRound(t.Context(), r); err != nil || l.stops.Load() != 1 {
		t.Errorf("%v, stopped %d times", err, l.stops.Load())
	}
	if _, err := os.Stat(filepath.Dir(inTheWay)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was written first: %v", err)
	}
}

// TestRecordsOfEvictions: other nodes' are not told, and one that cannot be read is one.
func TestRecordsOfEvictions(t *testing.T) {
	l, _, asked := fullPod(t)
	put(t, filepath.Join(l.podLogs(), host.EvictedMark), []byte("{"))
	other := filepath.Join(asked.PodLogs, "ns_other_uid2")
	put(t, filepath.Join(other, host.LogMark), host.Ownership{Node: "m"}.Bytes())
	if err := writeEviction(other, host.Eviction{Message: "m"}); err != nil {
		t.Fatal(err)
	}
	got, err := New(Options{RunRoot: t.TempDir()}).Evicted(t.Context(), asked)
	if err != nil || len(got) != 1 || got[0].UID != "uid" || got[0].Message == "" {
		t.Errorf("%+v, %v", got, err)
	}
	asked.PodLogs += "-gone"
	if got, err := New(Options{RunRoot: t.TempDir()}).Evicted(t.Context(), asked); err != nil || len(got) > 0 {
		t.Errorf("where there are no logs: %+v, %v", got, err)
	}
}

// TestKeeperForLimitsAlone: it is wanted where logs are not rotated.
func TestKeeperForLimitsAlone(t *testing.T) {
	_, r, _ := fullPod(t)
	h := asked(t, r)
	if order, err := h.KeepOrder(t.Context()); order == nil || err != nil {
		t.Errorf("%v, %v", order, err)
	}
	r.Keep.Evict = nil
	if _, err := h.Rotate(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if order, err := h.KeepOrder(t.Context()); order != nil || err != nil {
		t.Errorf("%v, %v", order, err)
	}
}
