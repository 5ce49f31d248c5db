package cri

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
)

func TestListFetchesDetailsOnce(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	for _, uid := range []string{"u1", "u2", "u3"} {
		runPod(t, r, testPod(uid), "main-"+uid, "side-"+uid)
	}
	list := func(details, addresses int) []backend.PodFacts {
		t.Helper()
		before := [4]int{
			w.fake.Calls("ListPodSandbox"), w.fake.Calls("ListContainers"), w.fake.Calls("ContainerStatus"),
			w.fake.Calls("PodSandboxStatus"),
		}
		facts, err := pods{r}.List(t.Context())
		must(t, err)
		after := [4]int{
			w.fake.Calls("ListPodSandbox"), w.fake.Calls("ListContainers"), w.fake.Calls("ContainerStatus"),
			w.fake.Calls("PodSandboxStatus"),
		}
		for i := range after {
			after[i] -= before[i]
		}
		if diff := cmp.Diff([4]int{1, 1, details, addresses}, after); diff != "" {
			t.Errorf("calls: sandboxes, containers, details, addresses (-want +got):\n%s", diff)
		}
		return facts
	}
	first := list(6, 0) // their addresses stand in the containers' /etc/hosts
	if diff := cmp.Diff(first, list(0, 0)); diff != "" {
		t.Errorf("the second listing differs:\n%s", diff)
	}
	id, _ := w.fake.Container("main-u2")
	w.fake.Exit(id, 1, "Error")
	facts := list(1, 0)
	list(0, 0)
	if c := facts[1].Containers[0]; c.ID != id || c.ExitCode != 1 || c.FinishedAt.IsZero() || c.Reason != "Error" {
		t.Errorf("exited container: %+v", c)
	}
	if ips := facts[0].IPs; !cmp.Equal(ips, []string{"10.1.0.7", "fd00::7"}) {
		t.Errorf("addresses %v", ips)
	}
	must(t, pods{r}.Remove(t.Context(), facts[1].Ref))
	list(0, 0)
	if n := len(r.details.owners); n != 6 {
		t.Errorf("%d ids remembered after a removal, want 6", n)
	}
}

func TestListSettlesOOM(t *testing.T) {
	now := time.Unix(1000, 0)
	at := func(age time.Duration) int64 { return now.Add(-age).UnixNano() }
	for name, tt := range map[string]struct {
		status *runtimeapi.ContainerStatus
		want   bool
	}{
		"running": {&runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_RUNNING}, true},
		"created": {&runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_CREATED}, false},
		"unknown": {&runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_UNKNOWN}, false},
		"exited": {
			&runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_EXITED, ExitCode: 1, FinishedAt: at(0)}, true,
		},
		"killed just now": {&runtimeapi.ContainerStatus{
			State: runtimeapi.ContainerState_CONTAINER_EXITED, ExitCode: 137, FinishedAt: at(time.Second),
		}, false},
		"killed long past": {&runtimeapi.ContainerStatus{
			State: runtimeapi.ContainerState_CONTAINER_EXITED, ExitCode: 137, FinishedAt: at(time.Minute),
		}, true},
	} {
		if got := lasting(tt.status, now); got != tt.want {
			t.Errorf("%s: lasting %v, want %v", name, got, tt.want)
		}
	}
	w := newWorld(t)
	r, _ := w.connect(t)
	runPod(t, r, testPod("u1"), "main")
	id, _ := w.fake.Container("main")
	w.fake.Exit(id, 137, "OOMKilled")
	if c := inspect(t, r, "u1").Containers[0]; !c.OOM || c.Reason != "OOMKilled" {
		t.Errorf("%+v, want OOM", c)
	}
}

func TestListErrorsAreErrors(t *testing.T) {
	for _, method := range []string{"ListPodSandbox", "ListContainers", "ContainerStatus", "PodSandboxStatus"} {
		t.Run(method, func(t *testing.T) {
			w := newWorld(t, func(s *fakecri.Server) {
				s.Before = func(_ context.Context, m string, _ any) error {
					if m == method {
						return errors.New("disk on fire")
					}
					return nil
				}
			})
			r, _ := w.connect(t)
			runPod(t, r, testPod("u1"))
			pod := testPod("u1")
			if method != "ListPodSandbox" && method != "PodSandboxStatus" {
				must(t, containers{r}.Start(t.Context(), launchSpec(pod, 0).Ref(), containerSpec(pod, "main", 0)))
			}
			if facts, err := (pods{r}).List(t.Context()); err == nil || !strings.Contains(err.Error(), "disk on fire") ||
				facts != nil {
				t.Errorf("List: %v, %v; want the error and nothing else", facts, err)
			}
		})
	}
}

func TestFactsOfADeadSandbox(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	runPod(t, r, testPod("u1"), "main")
	w.fake.Kill(inspect(t, r, "u1").ID)
	f := inspect(t, r, "u1")
	if !f.Live || f.Reason == "" || f.IPs != nil {
		t.Errorf("with a running container: %+v, want live, a reason, no address", f)
	}
	id, _ := w.fake.Container("main")
	w.fake.Exit(id, 0, "Completed")
	if f := inspect(t, r, "u1"); f.Live || f.Reason != "" {
		t.Errorf("with none: %+v, want dead", f)
	}
}

func TestInspectOfOneSelectsIt(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	runPod(t, r, testPod("u1"), "a")
	runPod(t, r, testPod("u2"), "b")
	f := inspect(t, r, "u1")
	if f.UID != "u1" || w.fake.Calls("ContainerStatus") != 1 {
		t.Errorf("%+v after %d details", f, w.fake.Calls("ContainerStatus"))
	}
	both, err := pods{r}.Inspect(t.Context(), []types.UID{"u2", "u1", "u9"})
	must(t, err)
	if len(both) != 2 {
		t.Errorf("%d pods, want 2", len(both))
	}
}

func TestRemoveLeavesNothing(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	pod := testPod("u1")
	ref := runPod(t, r, pod, "main")
	next := launchSpec(pod, 1)
	must(t, pods{r}.Launch(t.Context(), t.Context(), next))
	id, _ := w.fake.Container("main")
	link := filepath.Join(w.cfg.ContainerLogsDir, "name-u1_ns_main-"+id+".log")
	target, err := os.Readlink(link)
	must(t, err)
	logDir := filepath.Join(w.cfg.PodLogsDir, "ns_name-u1_u1")
	if want := filepath.Join(logDir, "main", "0.log"); target != want {
		t.Errorf("link to %s, want %s", target, want)
	}
	cgroups := w.host.(*withoutCgroups)
	made := cgroups.last()
	if made.Parent != "/burstlet/besteffort/podu1" || made.Systemd || made.QOSShares != 2 {
		t.Errorf("cgroup of the pod: %+v", made)
	}

	must(t, pods{r}.Remove(t.Context(), ref))
	wantThere(t, link, false)
	wantThere(t, logDir, true)
	wantClass(t, pods{r}.Remove(t.Context(), ref), backend.ErrNotFound)
	wantThere(t, logDir, true)

	must(t, pods{r}.Remove(t.Context(), next.Ref()))
	wantThere(t, logDir, false)
	if gone := cgroups.last(); gone.Parent != made.Parent || len(cgroups.asked) != 3 {
		t.Errorf("cgroups: %+v", cgroups.asked)
	}
	wantClass(t, pods{r}.Remove(t.Context(), next.Ref()), backend.ErrNotFound)
	if n := len(w.fake.Sandboxes()); n != 0 {
		t.Errorf("%d sandboxes are left", n)
	}
}

func wantThere(t *testing.T, path string, want bool) {
	t.Helper()
	if _, err := os.Lstat(path); (err == nil) != want {
		t.Errorf("%s: %v, want there: %v", path, err, want)
	}
}

func TestRemoveOneContainer(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	ref := runPod(t, r, testPod("u1"), "main")
	c := backend.ContainerRef{Pod: ref, Name: "main"}
	if err := (containers{r}).Remove(t.Context(), c); err == nil {
		t.Error("a running container was removed")
	}
	id, _ := w.fake.Container("main")
	w.fake.Exit(id, 0, "Completed")
	log := filepath.Join(w.cfg.PodLogsDir, "ns_name-u1_u1", "main", "0.log")
	must(t, os.WriteFile(log, nil, 0o644))
	must(t, containers{r}.Remove(t.Context(), c))
	wantThere(t, log, false)
	wantClass(t, containers{r}.Remove(t.Context(), c), backend.ErrNotFound)
}

func TestOrphanContainersAreFoundAndRemoved(t *testing.T) {
	cfg := Config{NodeIdentity: "node-a"}
	r := &remote{cfg: cfg, convert: convert.New(cfg)}
	pod := testPod("u1")
	spec := containerSpec(pod, "main", 3)
	views, err := group(nil, []*runtimeapi.Container{{
		Id: "c1", PodSandboxId: "gone", State: runtimeapi.ContainerState_CONTAINER_RUNNING,
		Metadata: &runtimeapi.ContainerMetadata{Name: "main", Attempt: 3},
		Labels:   r.convert.ContainerLabels(pod, "main"), Annotations: convert.ContainerAnnotations(spec, 2),
	}})
	must(t, err)
	want := backend.Ref{UID: "u1", Namespace: "ns", Name: "name-u1", Attempt: 2, ID: "gone"}
	if len(views) != 1 || views[0].ref != want || !r.podFacts(views[0]).Live {
		t.Errorf("%+v, want a live view of %+v", views[0], want)
	}
	if _, err := group(nil, []*runtimeapi.Container{{Id: "c1"}}); err == nil {
		t.Error("a container that names no attempt was passed over in silence")
	}
}
