package cri

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// meeting lets calls return only once all of them were made: they are beside each other.
type meeting struct {
	mu      sync.Mutex
	missing map[string]bool
	all     chan struct{}
}

func meet(calls ...string) *meeting {
	m := &meeting{missing: map[string]bool{}, all: make(chan struct{})}
	for _, c := range calls {
		m.missing[c] = true
	}
	return m
}

func (m *meeting) join(call string) error {
	m.mu.Lock()
	if !m.missing[call] {
		m.mu.Unlock()
		return nil
	}
	delete(m.missing, call)
	if len(m.missing) == 0 {
		close(m.all)
	}
	m.mu.Unlock()
	select {
	case <-m.all:
		return nil
	case <-time.After(3 * time.Minute):
		return fmt.Errorf("%s waits for %v: they are not beside each other", call, m.missing)
	}
}

// meetingHost takes part by what is prepared: "hosts" for contents of the hosts file,
// "link" for that of a log, "container" for what else one needs.
type meetingHost struct {
	host.Host
	join func(call string) error
}

func (h meetingHost) Prepare(ctx context.Context, p host.Preparation) (host.Prepared, error) {
	call := ""
	switch {
	case len(p.Links) > 0:
		call = "link"
	case len(p.Writes) == 1 && p.Writes[0].Within:
		call = "hosts"
	case len(p.Writes) == 1 && filepath.Base(p.Writes[0].Path) == convert.HostsFile:
		call = "container"
	}
	if err := h.join(call); err != nil {
		return host.Prepared{}, err
	}
	return h.Host.Prepare(ctx, p)
}

// TestStartIsFewRoundTrips: after its sandbox a container takes three round trips and
// one to be seen running: each line below is one. Over SSH a round trip takes as long
// as the host is far away.
func TestStartIsFewRoundTrips(t *testing.T) {
	rounds := []*meeting{
		meet("PodSandboxStatus", "container"),
		meet("CreateContainer", "hosts"),
		meet("StartContainer", "link"),
		meet("ListPodSandbox", "ListContainers", "ContainerStatus"),
	}
	join := func(call string) error {
		for _, m := range rounds {
			if err := m.join(call); err != nil {
				return err
			}
		}
		return nil
	}
	w := newWorld(t, func(s *fakecri.Server) {
		s.Before = func(_ context.Context, method string, _ any) error { return join(method) }
	})
	w.host = meetingHost{w.host, join}
	r, _ := w.connect(t)
	pod := testPod("u1")
	runPod(t, r, pod, "main")
	if f := inspect(t, r, "u1"); len(f.Containers) != 1 || f.Containers[0].State() != backend.Running {
		t.Errorf("facts %+v, want one container that runs", f)
	}
	for _, method := range []string{
		"RunPodSandbox", "PodSandboxStatus", "CreateContainer", "StartContainer", "ListPodSandbox", "ListContainers",
		"ContainerStatus",
	} {
		if n := w.fake.Calls(method); n != 1 {
			t.Errorf("%d calls of %s, want 1", n, method)
		}
	}
	inspect(t, r, "u1")
	if n := w.fake.Calls("ContainerStatus"); n != 1 {
		t.Errorf("a running container was asked for again")
	}
}

// TestHostsAreWrittenBeforeTheStart: also where the sandbox changed its address, and
// within the file that the container was made with.
func TestHostsAreWrittenBeforeTheStart(t *testing.T) {
	w := newWorld(t)
	var file string
	w.fake.Before = func(_ context.Context, method string, _ any) error {
		switch text, err := os.ReadFile(file); {
		case file == "":
		case method == "CreateContainer" && err != nil:
			return fmt.Errorf("there is nothing to mount: %w", err)
		case method == "StartContainer" && !strings.Contains(string(text), "10.1.0.7\tname-u1\nfd00::7\tname-u1\n"):
			return fmt.Errorf("the hosts file says %q, %w", text, err)
		}
		return nil
	}
	r, _ := w.connect(t)
	pod := testPod("u1")
	file = filepath.Join(r.convert.LogDir(convert.PodRef(pod)), convert.HostsFile)
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(t, os.WriteFile(file, []byte("10.1.0.9\tname-u1\n"), 0o644)) // of an earlier sandbox
	before, err := os.Stat(file)
	must(t, err)
	runPod(t, r, pod, "main")
	after, err := os.Stat(file)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("another file was put in the place of what was mounted: %v", err)
	}
}

// TestHostsThatCannotBeWritten keep the container from starting; the next call goes on.
func TestHostsThatCannotBeWritten(t *testing.T) {
	w := newWorld(t)
	failing := true
	w.host = meetingHost{w.host, func(call string) error {
		if call == "hosts" && failing {
			return fmt.Errorf("read-only file system")
		}
		return nil
	}}
	r, _ := w.connect(t)
	pod := testPod("u1")
	ref := runPod(t, r, pod)
	if err := (containers{r}).Start(t.Context(), ref, containerSpec(pod, "main", 0)); err == nil ||
		w.fake.Calls("StartContainer") != 0 {
		t.Fatalf("started without its hosts file: %v", err)
	}
	failing = false
	must(t, containers{r}.Start(t.Context(), ref, containerSpec(pod, "main", 0)))
	if f := inspect(t, r, "u1"); len(f.Containers) != 1 || f.Containers[0].State() != backend.Running {
		t.Errorf("facts %+v, want one container that runs", f)
	}
}

// TestStartInASandboxMadeSince: only that of the attempt named is taken from memory.
func TestStartInASandboxMadeSince(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	pod := testPod("u1")
	ref := runPod(t, r, pod)
	other, _ := w.connect(t)
	w.fake.Kill(inspect(t, r, "u1").ID)
	must(t, pods{other}.Launch(t.Context(), t.Context(), launchSpec(pod, 1)))
	must(t, containers{r}.Start(t.Context(), launchSpec(pod, 1).Ref(), containerSpec(pod, "main", 0)))
	must(t, pods{r}.Remove(t.Context(), ref))
	facts, err := pods{r}.List(t.Context())
	must(t, err)
	if len(facts) != 1 || len(facts[0].Containers) != 1 || facts[0].Attempt != 1 {
		t.Errorf("facts %+v, want the container in attempt 1", facts)
	}
	if _, known := r.details.launchedAs(ref); known {
		t.Error("a sandbox that has gone is remembered")
	}
}

// TestImageUserIsAskedOnce by the id that names it for ever.
func TestImageUserIsAskedOnce(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	id, err := r.puller.Find(t.Context(), testImage)
	must(t, err)
	nonRoot, group := false, int64(7)
	pod := testPod("u1")
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: &nonRoot, RunAsGroup: &group}
	ref := runPod(t, r, pod)
	spec := containerSpec(pod, "main", 0)
	spec.ImageID = id
	must(t, containers{r}.Start(t.Context(), ref, spec))
	if n := w.fake.Calls("ImageStatus"); n != 1 {
		t.Errorf("%d look-ups of the image, want 1", n)
	}
	if _, config := w.fake.Container("main"); config.GetLinux().GetSecurityContext().GetRunAsUser().GetValue() != 0 ||
		config.GetLinux().GetSecurityContext().GetRunAsGroup().GetValue() != 7 {
		t.Errorf("runs as %v", config.GetLinux().GetSecurityContext())
	}
}
