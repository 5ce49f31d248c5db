package cri

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
	"github.com/burstlet/burstlet/backend/cri/host"
)

func withOwnUsers(uid string) *corev1.Pod {
	pod := testPod(uid)
	pod.Spec.HostUsers = new(false)
	pod.Spec.Volumes = []corev1.Volume{{
		Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	}}
	return pod
}

// ownIDs are the ids that a configuration gives a pod; 0: those of the host.
func ownIDs(t *testing.T, o *runtimeapi.NamespaceOption) uint32 {
	t.Helper()
	users := o.GetUsernsOptions()
	if users == nil {
		return 0
	}
	if users.GetMode() != runtimeapi.NamespaceMode_POD || len(users.GetUids()) != 1 || len(users.GetGids()) != 1 {
		t.Fatalf("user namespace %v", users)
	}
	ids := users.GetUids()[0]
	if !cmp.Equal(ids.String(), users.GetGids()[0].String()) || ids.GetContainerId() != 0 ||
		ids.GetLength() != host.UserIDs {
		t.Fatalf("user namespace %v", users)
	}
	return ids.GetHostId()
}

// A pod with hostUsers: false has the same ids in its sandboxes and containers, whatever
// process starts them, and so have its mounts; another pod has others, until the first
// one has gone.
func TestOwnUsers(t *testing.T) {
	w := newWorld(t, func(s *fakecri.Server) {
		s.Handlers = []*runtimeapi.RuntimeHandler{
			{Name: "", Features: &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true}}, {Name: "old"},
		}
	})
	r, stop := w.connect(t)
	f, err := node{r}.Describe(t.Context())
	must(t, err)
	if !slices.Equal(f.UserNamespaces, []string{""}) {
		t.Errorf("handlers %q can make user namespaces", f.UserNamespaces)
	}
	pod := withOwnUsers("u1")
	runPod(t, r, pod)
	stop()
	r, _ = w.connect(t)
	spec := containerSpec(pod, "main", 0)
	spec.Container.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	must(t, containers{r}.Start(t.Context(), launchSpec(pod, 0).Ref(), spec))
	must(t, pods{r}.Launch(t.Context(), t.Context(), launchSpec(pod, 1)))
	_, config := w.fake.Container("main")
	first := ownIDs(t, config.GetLinux().GetSecurityContext().GetNamespaceOptions())
	if first == 0 {
		t.Fatal("the container has the host's ids")
	}
	for id, sandbox := range w.fake.Sandboxes() {
		if got := ownIDs(t, sandbox.GetLinux().GetSecurityContext().GetNamespaceOptions()); got != first {
			t.Errorf("sandbox %s has the ids from %d on, its container those from %d", id, got, first)
		}
	}
	if len(config.GetMounts()) < 2 { // the volume and /etc/hosts
		t.Errorf("mounts %v", config.GetMounts())
	}
	for _, m := range config.GetMounts() {
		for _, ids := range [][]*runtimeapi.IDMapping{m.GetUidMappings(), m.GetGidMappings()} {
			if len(ids) != 1 || ids[0].GetHostId() != first || ids[0].GetLength() != host.UserIDs {
				t.Errorf("mount %s maps %v, want the ids from %d on", m.GetContainerPath(), ids, first)
			}
		}
	}
	mark := filepath.Join(r.convert.LogDir(launchSpec(pod, 0).Ref()), host.LogMark)
	text, err := r.host.ReadFile(t.Context(), mark, host.MaxMark)
	must(t, err)
	if o := host.ReadOwnership(text); o.FirstUser != first {
		t.Errorf("on record is %+v, want the ids from %d on", o, first)
	}
	for _, attempt := range []int{0, 1} {
		must(t, pods{r}.Remove(t.Context(), launchSpec(pod, attempt).Ref()))
	}
	if _, err := r.host.ReadFile(t.Context(), mark, host.MaxMark); !isNotExist(err) {
		t.Errorf("the record of a pod that has gone: %v", err)
	}
}

// A pod without hostUsers: false runs as before.
func TestUsersOfTheHost(t *testing.T) {
	for _, users := range []*bool{nil, new(true)} {
		w := newWorld(t)
		r, _ := w.connect(t)
		pod := testPod("u1")
		pod.Spec.HostUsers = users
		runPod(t, r, pod, "main")
		_, config := w.fake.Container("main")
		if got := ownIDs(t, config.GetLinux().GetSecurityContext().GetNamespaceOptions()); got != 0 {
			t.Errorf("the container has the ids from %d on", got)
		}
		for _, m := range config.GetMounts() {
			if len(m.GetUidMappings())+len(m.GetGidMappings()) > 0 {
				t.Errorf("mount %v maps ids", m)
			}
		}
	}
}

// Where the pod's handler cannot make user namespaces, nothing of the pod is made.
func TestOwnUsersAreRefused(t *testing.T) {
	for _, handlers := range [][]*runtimeapi.RuntimeHandler{
		nil, {{Name: ""}}, {{Name: ""}, {Name: "kata", Features: &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true}}},
	} {
		w := newWorld(t, func(s *fakecri.Server) { s.Handlers = handlers })
		r, _ := w.connect(t)
		err := pods{r}.Launch(t.Context(), t.Context(), launchSpec(withOwnUsers("u1"), 0))
		wantClass(t, err, backend.ErrUnsupported)
		if len(w.fake.Sandboxes()) > 0 {
			t.Error("there is a sandbox")
		}
	}
}
