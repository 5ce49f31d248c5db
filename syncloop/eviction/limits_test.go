package eviction

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/localstorage"
)

func stored(bytes uint64) *backend.FilesystemUsage { return &backend.FilesystemUsage{Used: &bytes} }

func storageLimit(q string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse(q)}}
}

func scratch(medium corev1.StorageMedium, limit string) corev1.Volume {
	dir := &corev1.EmptyDirVolumeSource{Medium: medium}
	if limit != "" {
		dir.SizeLimit = new(resource.MustParse(limit))
	}
	return corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: dir}}
}

// TestOverStorage: eviction_manager.go localStorageEviction, message for message.
func TestOverStorage(t *testing.T) {
	const kib = 1 << 10
	disk, memory := corev1.StorageMediumDefault, corev1.StorageMediumMemory
	one := func(name string, layer, logs uint64) backend.ContainerStats {
		return backend.ContainerStats{Name: name, Usage: backend.Usage{Rootfs: stored(layer), Logs: stored(logs)}}
	}
	volume := func(bytes uint64) map[string]backend.FilesystemUsage {
		return map[string]backend.FilesystemUsage{"scratch": *stored(bytes)}
	}
	for name, tt := range map[string]struct {
		volumes    []corev1.Volume
		containers []corev1.Container
		stats      backend.PodStats
		limited    bool
		want       string
	}{
		"no limit": {
			volumes: []corev1.Volume{scratch(disk, "")}, stats: backend.PodStats{Volumes: volume(1 << 50)},
		},
		"an emptyDir at its limit": {
			volumes: []corev1.Volume{scratch(disk, "1Ki")}, stats: backend.PodStats{Volumes: volume(kib)}, limited: true,
		},
		"an emptyDir over its limit": {
			volumes: []corev1.Volume{scratch(disk, "1Ki")}, stats: backend.PodStats{Volumes: volume(kib + 1)}, limited: true,
			want: `Usage of EmptyDir volume "scratch" exceeds the limit "1Ki". `,
		},
		"an emptyDir in memory over its limit": {
			volumes: []corev1.Volume{scratch(memory, "1Ki")}, stats: backend.PodStats{Volumes: volume(kib + 1)}, limited: true,
			want: `Usage of EmptyDir volume "scratch" exceeds the limit "1Ki". `,
		},
		"an emptyDir with a limit of 0 has none": {
			volumes: []corev1.Volume{scratch(disk, "0")}, stats: backend.PodStats{Volumes: volume(kib)},
		},
		"an emptyDir that was not measured": {
			volumes: []corev1.Volume{scratch(disk, "1Ki")}, limited: true,
		},
		"a container at its limit": {
			containers: []corev1.Container{{Name: "a", Resources: storageLimit("2Ki")}}, limited: true,
			stats: backend.PodStats{Containers: []backend.ContainerStats{one("a", kib, kib)}},
		},
		"the pod over the sum of its containers' limits, by their layers and logs": {
			containers: []corev1.Container{{Name: "a", Resources: storageLimit("2Ki")}}, limited: true,
			stats: backend.PodStats{Containers: []backend.ContainerStats{one("a", kib, kib+1)}},
			want:  "Pod ephemeral local storage usage exceeds the total limit of containers 2Ki. ",
		},
		"the pod over the sum, by its volumes on the disk": {
			volumes: []corev1.Volume{scratch(disk, "")},
			containers: []corev1.Container{
				{Name: "a", Resources: storageLimit("1Ki")}, {Name: "b", Resources: storageLimit("1Ki")},
			}, limited: true,
			stats: backend.PodStats{
				Containers: []backend.ContainerStats{one("a", kib, 0), one("b", 0, kib)}, Volumes: volume(1),
			},
			want: "Pod ephemeral local storage usage exceeds the total limit of containers 2Ki. ",
		},
		"volumes in memory do not count": {
			volumes:    []corev1.Volume{scratch(memory, "")},
			containers: []corev1.Container{{Name: "a", Resources: storageLimit("1Ki")}}, limited: true,
			stats: backend.PodStats{Containers: []backend.ContainerStats{one("a", kib, 0)}, Volumes: volume(1)},
		},
		"the pod over the sum, as it was measured as a whole": {
			containers: []corev1.Container{{Name: "a", Resources: storageLimit("1Ki")}}, limited: true,
			stats: backend.PodStats{Usage: backend.Usage{EphemeralStorage: stored(kib + 1)}},
			want:  "Pod ephemeral local storage usage exceeds the total limit of containers 1Ki. ",
		},
		"one container over its own limit": {
			containers: []corev1.Container{
				{Name: "a", Resources: storageLimit("1Ki")}, {Name: "b", Resources: storageLimit("9Ki")},
			}, limited: true,
			stats: backend.PodStats{Containers: []backend.ContainerStats{one("a", kib, 1), one("b", 0, 0)}},
			want:  `Container a exceeded its local ephemeral storage limit "1Ki". `,
		},
		"of two attempts of a container the newer counts": {
			containers: []corev1.Container{
				{Name: "a", Resources: storageLimit("1Ki")}, {Name: "b", Resources: storageLimit("9Ki")},
			}, limited: true,
			stats: backend.PodStats{Containers: []backend.ContainerStats{
				{Name: "a", Attempt: 1, Usage: backend.Usage{Rootfs: stored(1)}}, one("a", kib, 1),
			}},
		},
		"the emptyDir is told of first": {
			volumes:    []corev1.Volume{scratch(disk, "1")},
			containers: []corev1.Container{{Name: "a", Resources: storageLimit("1")}}, limited: true,
			stats: backend.PodStats{Containers: []backend.ContainerStats{one("a", 9, 9)}, Volumes: volume(9)},
			want:  `Usage of EmptyDir volume "scratch" exceeds the limit "1". `,
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: tt.volumes, Containers: tt.containers}}
			if got := LimitsStorage(pod); got != tt.limited {
				t.Errorf("has a limit: %v", got)
			}
			got := OverStorage(pod, &tt.stats)
			if got == nil {
				got = &localstorage.Excess{}
			}
			if got.Message != tt.want {
				t.Errorf("got %q, want %q", got.Message, tt.want)
			}
		})
	}
}

// TestLimitsStorage: the look at a pod must find what its limits hold.
func TestLimitsStorage(t *testing.T) {
	requests := corev1.ResourceRequirements{Requests: storageLimit("1Mi").Limits}
	for name, tt := range map[string]struct {
		spec corev1.PodSpec
		want bool
	}{
		"none": {corev1.PodSpec{
			Containers: []corev1.Container{{Resources: requests}},
			Volumes:    []corev1.Volume{scratch("", ""), {Name: "token"}},
		}, false},
		"an emptyDir":      {corev1.PodSpec{Volumes: []corev1.Volume{scratch("", ""), scratch("", "1Mi")}}, true},
		"an emptyDir of 0": {corev1.PodSpec{Volumes: []corev1.Volume{scratch("", "0")}}, false},
		"a container":      {corev1.PodSpec{Containers: []corev1.Container{{}, {Resources: storageLimit("1Mi")}}}, true},
		"an init container": {corev1.PodSpec{
			InitContainers: []corev1.Container{{Resources: storageLimit("1Mi")}}, Containers: []corev1.Container{{}},
		}, true},
	} {
		pod := &corev1.Pod{Spec: tt.spec}
		limits := backend.StorageLimits(pod)
		if got := LimitsStorage(pod); got != tt.want || got != limits.Any() {
			t.Errorf("%s: %t, want %t; by all limits %t", name, got, tt.want, limits.Any())
		}
	}
}
