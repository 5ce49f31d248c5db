package cri

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/host/local"
)

// Nodes of one host have the cgroup of the burstable class in common, in one process or in
// several: it weighs what the pods of all ask for, whatever their authors write on them.
func TestNodesOfOneHostWeighTheirClassTogether(t *testing.T) {
	cgroups := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(cgroups, "cpu"), 0o755))
	must(t, os.WriteFile(filepath.Join(cgroups, "cpu", "cgroup.procs"), nil, 0o644))
	w := newWorld(t)
	node := func(identity string) *remote {
		w.cfg.NodeIdentity = identity
		// A process of its own has a host of its own.
		w.host = local.New(local.Options{CgroupRoot: cgroups})
		r, _ := w.connect(t)
		return r
	}
	a, b := node("node-a"), node("node-b")
	launch := func(r *remote, uid, asks string) {
		pod := testPod(uid)
		pod.Spec.Containers[0].Resources = resources(asks, "- -")
		pod.Annotations = map[string]string{"burstlet.dev/cpu-shares": "262144", convert.AnnotationCgroup: "/other"}
		must(t, pods{r}.Launch(t.Context(), t.Context(), launchSpec(pod, 0)))
	}
	weighs := func(when, want string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(cgroups, "cpu", "burstlet", "burstable", "cpu.shares"))
		must(t, err)
		if got := strings.TrimSpace(string(text)); got != want {
			t.Errorf("%s: the class has %s shares, want %s", when, got, want)
		}
	}
	launch(a, "a1", "500m -")
	launch(b, "b1", "250m -")
	weighs("a pod each", "768")
	launch(a, "a2", "1 -")
	weighs("another", "1792")
	// One that is best effort, or guaranteed, says nothing of it.
	launch(b, "b2", "- -")
	weighs("one of another class", "1792")
}
