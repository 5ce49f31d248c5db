package eviction

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
)

// candidate is a pod with one container "a".
func candidate(name string, priority int32, request corev1.ResourceList, stats *backend.PodStats) Pod {
	pod := &corev1.Pod{}
	pod.Name, pod.Spec.Priority = name, &priority
	pod.Spec.Containers = []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: request}}}
	pod.Spec.Volumes = []corev1.Volume{scratch(corev1.StorageMediumDefault, "")}
	return Pod{Pod: pod, Stats: stats}
}

func memoryRequest(q string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(q)}
}

func diskRequest(q string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse(q)}
}

func usesMemory(bytes uint64) *backend.PodStats {
	return &backend.PodStats{Usage: backend.Usage{MemoryWorkingSet: &bytes}}
}

// usesDisk is what the layer, the log and the volume of a pod take.
func usesDisk(layer, logs, volume uint64) *backend.PodStats {
	inodes := func(n uint64) *backend.FilesystemUsage {
		return &backend.FilesystemUsage{Used: &n, InodesUsed: new(1000 - n)}
	}
	return &backend.PodStats{
		Containers: []backend.ContainerStats{{Name: "a", Usage: backend.Usage{Rootfs: inodes(layer), Logs: inodes(logs)}}},
		Volumes:    map[string]backend.FilesystemUsage{"scratch": *inodes(volume)},
	}
}

// TestRank: helpers_test.go TestOrderedByPriorityMemory, TestSortByPriorityDisk and their like.
func TestRank(t *testing.T) {
	processes := func(n uint64) *backend.PodStats { return &backend.PodStats{Usage: backend.Usage{Processes: &n}} }
	for name, tt := range map[string]struct {
		signal    Signal
		dedicated bool
		want      []Pod
	}{
		"memory": {MemoryAvailable, false, []Pod{
			candidate("unmeasured", 9, nil, nil),
			candidate("best-effort-large", 0, nil, usesMemory(900)),
			candidate("over-by-less", 0, memoryRequest("800"), usesMemory(1000)),
			candidate("over-high-priority", 5, nil, usesMemory(5000)),
			candidate("below-low-priority", -1, memoryRequest("10000"), usesMemory(9000)),
			candidate("below-by-little", 0, memoryRequest("1000"), usesMemory(1000)),
			candidate("below-by-much", 0, memoryRequest("9000"), usesMemory(1000)),
		}},
		"what pods may have together": {AllocatableMemoryAvailable, false, []Pod{
			candidate("over", 0, nil, usesMemory(1)), candidate("below", 0, memoryRequest("10000"), usesMemory(9000)),
		}},
		"memory by containers where the pod has no figure": {MemoryAvailable, false, []Pod{
			candidate("large", 0, nil, &backend.PodStats{Containers: []backend.ContainerStats{
				{Usage: backend.Usage{MemoryWorkingSet: new(uint64(60))}},
				{Usage: backend.Usage{MemoryWorkingSet: new(uint64(60))}},
			}}),
			candidate("small", 0, nil, usesMemory(100)),
		}},
		"one disk: all that stands on it": {NodeFSAvailable, false, []Pod{
			candidate("over", 0, diskRequest("100"), usesDisk(50, 50, 1)),
			candidate("over-high-priority", 1, diskRequest("1"), usesDisk(500, 50, 1)),
			candidate("below", 0, diskRequest("1000"), usesDisk(500, 50, 1)),
		}},
		"imagefs on one disk is the same": {ImageFSAvailable, false, []Pod{
			candidate("volume", 0, nil, usesDisk(0, 0, 9)), candidate("layer", 0, nil, usesDisk(8, 0, 0)),
			candidate("logs", 0, nil, usesDisk(0, 7, 0)),
		}},
		"nodefs of its own: logs and volumes": {NodeFSAvailable, true, []Pod{
			candidate("volume", 0, nil, usesDisk(0, 0, 3)), candidate("logs", 0, nil, usesDisk(0, 2, 0)),
			candidate("layer", 0, nil, usesDisk(900, 0, 0)),
		}},
		"imagefs of its own: layers": {ImageFSAvailable, true, []Pod{
			candidate("layer", 0, nil, usesDisk(2, 0, 0)), candidate("volume", 0, nil, usesDisk(1, 900, 900)),
		}},
		"inodes, which nobody requests": {NodeFSInodesFree, true, []Pod{
			candidate("many", 0, diskRequest("1Gi"), usesDisk(0, 0, 0)), candidate("few", 0, nil, usesDisk(0, 900, 900)),
		}},
		"PIDs: by priority alone, then by their number": {PIDAvailable, false, []Pod{
			candidate("lowest", -5, nil, processes(1)), candidate("many", 0, nil, processes(100)),
			candidate("few", 0, nil, processes(10)), candidate("high", 5, nil, processes(1000)),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, order := range []func([]Pod){func([]Pod) {}, slices.Reverse[[]Pod]} {
				got := slices.Clone(tt.want)
				order(got)
				Rank(got, tt.signal, tt.dedicated)
				if names(got) != names(tt.want) {
					t.Errorf("got %s, want %s", names(got), names(tt.want))
				}
			}
		})
	}
}

func names(pods []Pod) string {
	var all []string
	for _, p := range pods {
		all = append(all, p.Name)
	}
	return strings.Join(all, " ")
}

// TestMessage: word for word the kubelet's.
func TestMessage(t *testing.T) {
	measured := &backend.PodStats{
		Usage: backend.Usage{MemoryWorkingSet: new(uint64(60 << 20))},
		Containers: []backend.ContainerStats{
			{Name: "a", Usage: backend.Usage{
				MemoryWorkingSet: new(uint64(20 << 20)), Rootfs: stored(1 << 20), Logs: stored(1 << 20),
			}},
			{Name: "init", Usage: backend.Usage{MemoryWorkingSet: new(uint64(30 << 20))}},
			{Name: "debug", Usage: backend.Usage{MemoryWorkingSet: new(uint64(10 << 20))}},
		},
	}
	p := func(requests corev1.ResourceList, stats *backend.PodStats) Pod {
		p := candidate("p", 0, requests, stats)
		p.Spec.InitContainers = []corev1.Container{{Name: "init"}}
		return p
	}
	whole := p(nil, measured)
	whole.Spec.Resources = &corev1.ResourceRequirements{Requests: memoryRequest("50Mi")}
	memory, disk := Threshold{Signal: MemoryAvailable, Value: *quantity("100Mi")}, Threshold{
		Signal: NodeFSAvailable, Value: *share(.1),
	}
	inodes := Threshold{Signal: NodeFSInodesFree, Value: *share(.05)}
	o := Observations{
		MemoryAvailable: left(90<<20, 1<<30), NodeFSAvailable: left(1<<20, 100<<20), NodeFSInodesFree: left(4000, 100000),
	}
	for name, tt := range map[string]struct {
		pod  Pod
		met  []Threshold
		want string
		// annotations: resource, containers, their usage, pod, its usage
		annotations string
	}{
		"not measured": {
			p(nil, nil),
			[]Threshold{memory},
			"The node was low on resource: memory. Threshold quantity: 100Mi, available: 90Mi. ", "",
		},
		"who is over": {
			p(nil, measured),
			[]Threshold{memory, disk},
			"The node was low on resource: memory. Threshold quantity: 100Mi, available: 90Mi. " +
				"Container a was using 20Mi, request is 0, has larger consumption of memory. " +
				"Container init was using 30Mi, request is 0, has larger consumption of memory. ",
			"memory;a,init;20Mi,30Mi;;",
		},
		"who is not": {
			p(memoryRequest("20Mi"), measured),
			[]Threshold{memory},
			"The node was low on resource: memory. Threshold quantity: 100Mi, available: 90Mi. " +
				"Container init was using 30Mi, request is 0, has larger consumption of memory. ",
			"memory;init;30Mi;;",
		},
		"requests of the whole pod": {
			whole,
			[]Threshold{memory},
			"The node was low on resource: memory. Threshold quantity: 100Mi, available: 90Mi. " +
				"Pod p was using 60Mi, request is 50Mi, has larger consumption of memory. " +
				"Container a was using 20Mi, request is 0, has larger consumption of memory. " +
				"Container init was using 30Mi, request is 0, has larger consumption of memory. ",
			"memory;a,init;20Mi,30Mi;p;60Mi",
		},
		"disk": {
			p(nil, measured),
			[]Threshold{disk},
			"The node was low on resource: ephemeral-storage. Threshold quantity: 10Mi, available: 1Mi. " +
				"Container a was using 2Mi, request is 0, has larger consumption of ephemeral-storage. ",
			"ephemeral-storage;a;2Mi;;",
		},
		"inodes": {
			p(nil, measured),
			[]Threshold{inodes},
			"The node was low on resource: inodes. Threshold quantity: 5000, available: 4k. ", "inodes;;;;",
		},
	} {
		got, annotations := Message(&tt.pod, tt.met, o)
		if got != tt.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, tt.want)
		}
		var values []string
		for _, key := range []string{
			"starved_resource", "offending_containers", "offending_containers_usage", "offending_pod", "offending_pod_usage",
		} {
			if annotations != nil {
				values = append(values, annotations[key])
			}
		}
		if got := strings.Join(values, ";"); got != tt.annotations {
			t.Errorf("%s: annotations %q, want %q", name, got, tt.annotations)
		}
	}
}
