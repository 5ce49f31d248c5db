package cri

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// realStats: what a container is known to use is what is measured.
func realStats(t *testing.T, w *realWorld) {
	pod := testPod("real-stats")
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{
			Name:         "memory",
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}},
		},
	}
	for _, v := range pod.Spec.Volumes {
		must(
			t, files{w.remote}.Place(t.Context(), backend.VolumeSpec{Pod: pod, Name: v.Name, Source: v.VolumeSource, Hash: "h"}),
		)
	}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
		{Name: "scratch", MountPath: "/scratch"}, {Name: "memory", MountPath: "/memory"},
	}
	pod.Spec.Containers[0].Resources = resources("100m 16Mi", "500m 64Mi")
	ref := w.start(t, pod, `head -c 3000000 /dev/zero >/layer; head -c 2000000 /dev/zero >/scratch/x
		head -c 1000000 /dev/zero >/memory/x; head -c 100000 /dev/zero | tr '\0' 'a'; echo; sync; touch /scratch/done
		while true; do :; done`)
	eventually(t, "all is written", func() bool {
		_, err := os.Stat(filepath.Join(w.convert.PodDir(pod.UID).Volume("scratch"), "done"))
		return err == nil
	})
	var facts backend.StatsFacts
	eventually(t, "the processor's use is measured", func() (ok bool) {
		facts, ok = measuredAlone(t, w.remote, ref)
		if !ok {
			return false
		}
		p := facts.Pods[0]
		// It is held to half a processor; a busy machine gives it less.
		return above(p.Containers[0].CPUNanoCores, 0.02e9) && above(p.CPUNanoCores, 0.02e9) &&
			!above(p.CPUNanoCores, 0.8e9) &&
			above(p.CPUCoreNanoSeconds, float64(*p.Containers[0].CPUCoreNanoSeconds)/2)
	})
	p := facts.Pods[0]
	c := p.Containers[0]
	const limit = 64 << 20
	for what, ok := range map[string]bool{
		"memory, with what is in the tmpfs": above(p.MemoryWorkingSet, 1e6) && !above(p.MemoryWorkingSet, limit),
		"the pod's limit":                   above(p.MemoryAvailable, 1) && *p.MemoryAvailable+*p.MemoryWorkingSet == limit,
		"the container's limit":             above(c.MemoryAvailable, 1) && *c.MemoryAvailable+*c.MemoryWorkingSet == limit,
		"processes":                         above(p.Processes, 2) && above(facts.Node.Processes, 10),
		"the file system of images":         facts.Images != nil && above(facts.Images.Capacity, 1e6),
		"the host since its boot": facts.Node.StartTime.Before(time.Now()) &&
			above(facts.Node.MemoryWorkingSet, 1e6),
	} {
		if !ok {
			t.Errorf("%s: pod %+v, container %+v", what, p.Usage, c.Usage)
		}
	}
	wantDisks(t, w, ref)
}

// measuredAlone is true when one container of the pod is all that is measured.
func measuredAlone(t *testing.T, r *remote, ref backend.Ref) (backend.StatsFacts, bool) {
	t.Helper()
	facts := measure(t, r)
	return facts, len(facts.Pods) == 1 && facts.Pods[0].UID == ref.UID && len(facts.Pods[0].Containers) == 1
}

// wantDisks asks a backend that has measured nothing yet: the other one remembers.
func wantDisks(t *testing.T, w *realWorld, ref backend.Ref) {
	t.Helper()
	var p backend.PodStats
	eventually(t, "the disks are measured", func() bool {
		r, stop := (&world{cfg: w.cfg, access: inside(w.host)}).connect(t)
		defer stop()
		facts, ok := measuredAlone(t, r, ref)
		if !ok {
			return false
		}
		p = facts.Pods[0]
		l := p.Containers[0].Rootfs
		return l != nil && above(l.Used, 3e6)
	})
	if l := p.Containers[0].Logs; l == nil || !above(l.Used, 100000) {
		t.Errorf("log: %+v", l)
	}
	if v := p.Volumes["scratch"]; !above(v.Used, 2e6) || above(v.Used, 3e6) || !above(v.InodesUsed, 3) {
		t.Errorf("volume on disk: %+v", v)
	}
	if v := p.Volumes["memory"]; !above(v.Used, 1e6) || above(v.Used, 2e6) {
		t.Errorf("volume in memory: %+v", v)
	}
	if e := p.EphemeralStorage; e == nil || !above(e.Used, 5e6) || above(e.Used, 6e6) {
		t.Errorf("layer, log and the volume on disk: %+v", e)
	}
}

// above is true of what is known and at least that.
func above(n *uint64, least float64) bool { return n != nil && float64(*n) >= least }
