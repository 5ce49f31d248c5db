package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/burstlet/burstlet/backend/class"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/fence"
)

func leads(t *testing.T, root, node, holder string, change fence.Change, after uint64) fence.Record {
	t.Helper()
	r, err := New(Options{}).Leader(t.Context(), host.LeaderRequest{
		Root: root, Node: node, Request: fence.Request{Change: change, After: after, Holder: holder},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestOnlyTheLastLeaderChangesTheHost: every operation but those that stand here asks who
// wants it, before it does anything.
func TestOnlyTheLastLeaderChangesTheHost(t *testing.T) {
	reads := []string{
		"Facts", "ReadFile", "ReadWithin", "Volumes", "Log", "Usage", "Leader", "AwaitShutdown", "ShutdownDelay", "AwaitOOM",
		"SystemLog", "Evicted",
	}
	root := filepath.Join(t.TempDir(), "pods")
	leads(t, root, "n", "a", fence.Take, 0)
	leads(t, root, "n", "b", fence.Take, 1)
	h := New(Options{RunRoot: t.TempDir()})
	operations := reflect.TypeFor[host.Host]()
	call := func(name string, l host.Leader) error {
		m, _ := operations.MethodByName(name)
		args := []reflect.Value{reflect.ValueOf(host.WithLeader(t.Context(), l))}
		for j := 1; j < m.Type.NumIn(); j++ {
			args = append(args, reflect.Zero(m.Type.In(j)))
		}
		out := reflect.ValueOf(h).MethodByName(name).Call(args)
		err, _ := out[len(out)-1].Interface().(error)
		return err
	}
	for i := range operations.NumMethod() {
		name := operations.Method(i).Name
		if slices.Contains(reads, name) {
			continue
		}
		for _, l := range []host.Leader{
			{Root: root, Node: "n", Holder: "a"},
			{Root: root, Node: "other", Holder: "b"},
			{Root: root + "2", Node: "n", Holder: "b"},
		} {
			if err := call(name, l); class.Of(err) != "Superseded" {
				t.Errorf("%s for %+v: %v", name, l, err)
			}
		}
		for _, l := range []host.Leader{{}, {Root: root, Node: "n", Holder: "b"}} {
			if err := call(name, l); class.Of(err) == "Superseded" {
				t.Errorf("%s for %+v: %v", name, l, err)
			}
		}
	}
}

// TestCallOfOneWhoWaited: a call waits for those of another process; whoever has a
// successor by then does not make it.
func TestCallOfOneWhoWaited(t *testing.T) {
	root, run := t.TempDir(), t.TempDir()
	leads(t, root, "n", "a", fence.Take, 0)
	before, h := New(Options{RunRoot: run}), New(Options{RunRoot: run})
	if err := before.begin(t.Context(), "uid"); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error)
	go func() {
		ctx := host.WithLeader(t.Context(), host.Leader{Root: root, Node: "n", Holder: "a"})
		_, err := h.Call(ctx, host.Call{Owner: "uid"})
		waited <- err
	}()
	leads(t, root, "n", "b", fence.Take, 1)
	before.finish("uid")
	if err := <-waited; class.Of(err) != "Superseded" {
		t.Errorf("%v", err)
	}
	if entries, err := os.ReadDir(run); err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

func TestLeaderIsTakenByOneAtATime(t *testing.T) {
	root := t.TempDir()
	var group sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		group.Go(func() {
			h := New(Options{})
			ask := func(ctx context.Context, q fence.Request) (fence.Record, error) {
				return h.Leader(ctx, host.LeaderRequest{Root: root, Node: "n", Request: q})
			}
			taker := fence.NewTaker(name, func(string) error { return nil }, ask)
			if holder, err := taker.Holder(t.Context()); holder != name || err != nil {
				t.Errorf("%q, %v", holder, err)
			}
		})
	}
	group.Wait()
	if r := leads(t, root, "n", "", fence.Look, 0); r.Number != 4 {
		t.Errorf("%+v", r)
	}
}

// TestLeadersRecord: it stands among the pods' directories and is none of them, goes when
// it is dropped, and is none when it cannot be understood.
func TestLeadersRecord(t *testing.T) {
	root := filepath.Join(t.TempDir(), "not", "there")
	if r := leads(t, root, "n", "", fence.Look, 0); r != (fence.Record{}) {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a look made the directory: %v", err)
	}
	leads(t, root, "n", "a", fence.Take, 0)
	leads(t, root, "m", "z", fence.Take, 0)
	if placed, err := New(Options{}).Volumes(t.Context(), root, "n"); len(placed) > 0 || err != nil {
		t.Errorf("volumes %v, %v", placed, err)
	}
	if err := os.WriteFile(recordFile(root, "m"), []byte(`{"numb`), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := leads(t, root, "m", "y", fence.Take, 0); r != (fence.Record{Number: 1, Holder: "y"}) {
		t.Errorf("after a record that was cut off: %+v", r)
	}
	leads(t, root, "n", "a", fence.Drop, 1)
	leads(t, root, "m", "y", fence.Drop, 1)
	if entries, err := os.ReadDir(root); err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// TestNoRoomForALeadersRecord: a leader that cannot be recorded leaves no other's record,
// whose changes would pass.
func TestNoRoomForALeadersRecord(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		root := mountRoot(t)
		mountOn(t, "tmpfs", root, "tmpfs", 0, "size=64k")
		leads(t, root, "n", "a", fence.Take, 0)
		f, err := os.Create(filepath.Join(root, "full"))
		noError(t, err)
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		noError(t, f.Close())
		_, err = New(Options{}).Leader(t.Context(), host.LeaderRequest{
			Root: root, Node: "n", Request: fence.Request{Change: fence.Take, After: 1, Holder: "b"},
		})
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%v", err)
		}
		if r := leads(t, root, "n", "", fence.Look, 0); r != (fence.Record{}) {
			t.Errorf("%+v is left", r)
		}
	})
}
