package convert

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/criconfig"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// bytesOf are quantities as a request and a limit, as the API wants them of huge pages.
func bytesOf(pairs ...string) corev1.ResourceRequirements {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return corev1.ResourceRequirements{Requests: list, Limits: list}
}

// The pod's cgroup has what it requests as a whole, a container its own limits and none of
// the other sizes.
func TestHugePageLimits(t *testing.T) {
	has := map[int64]int64{64 << 10: 0, 2 << 20: 1 << 30, 1 << 30: 1 << 30}
	pages := func(resources ...corev1.ResourceRequirements) *corev1.Pod {
		pod := fakecri.Pod("u1")
		pod.Spec.Containers = nil
		for i, r := range resources {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprint(i), Resources: r})
		}
		return pod
	}
	ofPod := pages(corev1.ResourceRequirements{}, bytesOf("hugepages-2Mi", "2Mi"))
	ofPod.Spec.Resources = new(bytesOf("hugepages-2Mi", "8Mi", "hugepages-1Gi", "1Gi"))
	initFirst := pages(bytesOf("hugepages-2Mi", "4Mi"))
	initFirst.Spec.InitContainers = []corev1.Container{{Name: "i", Resources: bytesOf("hugepages-2Mi", "16Mi")}}
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want map[string]int64
		of   []string // of each container
	}{
		"none": {pages(bytesOf("cpu", "1")), nil, []string{"64KB=0 2MB=0 1GB=0"}},
		"two sizes": {
			pages(bytesOf("hugepages-2Mi", "4Mi", "hugepages-1Gi", "2Gi"), bytesOf("hugepages-2Mi", "2Mi")),
			map[string]int64{"2MB": 6 << 20, "1GB": 2 << 30},
			[]string{"64KB=0 2MB=4194304 1GB=2147483648", "64KB=0 2MB=2097152 1GB=0"},
		},
		"an init container": {initFirst, map[string]int64{"2MB": 16 << 20}, []string{"64KB=0 2MB=4194304 1GB=0"}},
		"of the pod": {
			ofPod,
			map[string]int64{"2MB": 8 << 20, "1GB": 1 << 30},
			[]string{"64KB=0 2MB=8388608 1GB=1073741824", "64KB=0 2MB=2097152 1GB=1073741824"},
		},
		"in other words": {
			pages(bytesOf("hugepages-2048Ki", "2Mi")), map[string]int64{"2MB": 2 << 20}, []string{"64KB=0 2MB=2097152 1GB=0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := New(criconfig.Config{CgroupDriver: criconfig.CgroupDriverCgroupfs})
			cgroup := r.Cgroup(tt.pod, criconfig.CgroupDriverCgroupfs)
			if diff := cmp.Diff(tt.want, cgroup.HugePages); diff != "" {
				t.Errorf("the pod's cgroup (-want +got):\n%s", diff)
			}
			for i := range tt.pod.Spec.Containers {
				spec := backend.ContainerSpec{Pod: tt.pod, Container: tt.pod.Spec.Containers[i]}
				var got []string
				for _, l := range r.Container(
					spec, 0, ImageUser{}, &host.Facts{HugePages: has},
				).GetLinux().GetResources().GetHugepageLimits() {
					got = append(got, fmt.Sprintf("%s=%d", l.GetPageSize(), l.GetLimit()))
				}
				if got := strings.Join(got, " "); got != tt.of[i] {
					t.Errorf("container %d has %s, want %s", i, got, tt.of[i])
				}
			}
		})
	}
}

// An emptyDir of huge pages has a size that the pod requests (kubelet:
// getPageSizeMountOption).
func TestHugePagesOfAVolume(t *testing.T) {
	two, one := bytesOf("hugepages-2Mi", "2Mi"), bytesOf("hugepages-1Gi", "1Gi")
	for name, tt := range map[string]struct {
		medium          corev1.StorageMedium
		init, main, pod *corev1.ResourceRequirements
		want            string // the size, or what the error says
	}{
		"the only size":         {"HugePages", nil, &one, nil, "1Gi"},
		"an init container's":   {"HugePages", &two, nil, nil, "2Mi"},
		"the pod's":             {"HugePages", nil, nil, &two, "2Mi"},
		"which of two":          {"HugePages", &two, &one, nil, "multiple huge page sizes"},
		"one of two":            {"HugePages-2Mi", &two, &one, nil, "2Mi"},
		"in other words":        {"HugePages-2048Ki", nil, &two, nil, "2Mi"},
		"another than requests": {"HugePages-2Mi", nil, &one, nil, "no resource request for huge pages"},
		"no request":            {"HugePages", nil, nil, nil, "no resource request for huge pages"},
		"no size":               {"HugePages-", nil, &two, nil, "its size"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := fakecri.Pod("u1")
			pod.Spec.Resources = tt.pod
			if tt.init != nil {
				pod.Spec.InitContainers = []corev1.Container{{Resources: *tt.init}}
			}
			if tt.main != nil {
				pod.Spec.Containers[0].Resources = *tt.main
			}
			source := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: tt.medium}}
			v, err := New(criconfig.Config{}).Volume(backend.VolumeSpec{Pod: pod, Name: "v", Source: source})
			switch {
			case err != nil:
				wantClass(t, err, backend.ErrInvalid)
				if !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %v, want %q", err, tt.want)
				}
			case v.PageSize != tt.want || v.Kind != host.KindHugePages:
				t.Errorf("%s of %q, want %q", v.Kind, v.PageSize, tt.want)
			}
		})
	}
}
