package convert

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
)

// hugePagesOf is how many bytes of huge pages a list names, by their size in bytes.
func hugePagesOf(list corev1.ResourceList) map[int64]int64 {
	out := map[int64]int64{}
	for name, q := range list {
		if size, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix); ok {
			if parsed, err := resource.ParseQuantity(size); err == nil { // the API takes no other
				out[parsed.Value()] += q.Value()
			}
		}
	}
	return out
}

// kernelPageSize is how cgroups call a size: 2MB.
func kernelPageSize(size int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB"}
	i := 0
	for ; size >= 1<<10 && size%(1<<10) == 0 && i < len(units)-1; i++ {
		size >>= 10
	}
	return strconv.FormatInt(size, 10) + units[i]
}

// podHugePages are the limits of the pod's cgroup: what it requests as a whole (kubelet:
// HugePageLimits).
func podHugePages(pod *corev1.Pod) map[string]int64 {
	var out map[string]int64
	for size, bytes := range hugePagesOf(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})) {
		if bytes == 0 {
			continue
		}
		if out == nil {
			out = map[string]int64{}
		}
		out[kernelPageSize(size)] = bytes
	}
	return out
}

// hugePageLimits are a container's: its own, else its pod's, else none of the sizes that
// the host has (kubelet: GetHugepageLimitsFromResources).
func hugePageLimits(pod *corev1.Pod, c *corev1.Container, has map[int64]int64) []*runtimeapi.HugepageLimit {
	limits := map[int64]int64{}
	for size := range has {
		limits[size] = 0
	}
	if pod.Spec.Resources != nil {
		maps.Copy(limits, hugePagesOf(pod.Spec.Resources.Limits))
	}
	maps.Copy(limits, hugePagesOf(c.Resources.Limits))
	var out []*runtimeapi.HugepageLimit
	for _, size := range slices.Sorted(maps.Keys(limits)) {
		out = append(out, &runtimeapi.HugepageLimit{PageSize: kernelPageSize(size), Limit: uint64(limits[size])})
	}
	return out
}

// pageSize is that of an emptyDir's huge pages, as in "2Mi": one that the pod requests
// (kubelet: getPageSizeMountOption). Errors: Invalid, in the kubelet's words.
func pageSize(pod *corev1.Pod, medium corev1.StorageMedium) (string, error) {
	lists := []corev1.ResourceList{}
	if pod.Spec.Resources != nil {
		lists = append(lists, pod.Spec.Resources.Requests)
	}
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		lists = append(lists, c.Resources.Requests)
	}
	requested := map[int64]bool{}
	for _, list := range lists {
		for size := range hugePagesOf(list) {
			requested[size] = true
		}
	}
	wanted, sized := strings.CutPrefix(string(medium), string(corev1.StorageMediumHugePagesPrefix))
	if sized {
		size, err := resource.ParseQuantity(wanted)
		if err != nil {
			return "", backend.Errorf(backend.ErrInvalid, "medium %s: its size: %w", medium, err)
		}
		maps.DeleteFunc(requested, func(r int64, _ bool) bool { return r != size.Value() })
	}
	switch len(requested) {
	case 0:
		return "", backend.Errorf(
			backend.ErrInvalid, "medium %s: hugePages storage requested, but there is no resource request for huge pages",
			medium,
		)
	case 1:
		for size := range requested {
			return resource.NewQuantity(size, resource.BinarySI).String(), nil
		}
	}
	return "", backend.Errorf(
		backend.ErrInvalid, "medium: %s can't be used if container requests multiple huge page sizes", medium,
	)
}
