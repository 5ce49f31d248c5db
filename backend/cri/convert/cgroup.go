package convert

import (
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend/cfs"
	"github.com/burstlet/burstlet/backend/cri/criconfig"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// cgroupParent is the cgroup that the pod's containers stand in: a path under
// the cgroupfs driver, the name of a slice under systemd's, which nests slices by
// the dashes in their names.
func cgroupParent(driver, top string, pod *corev1.Pod) string {
	parts := []string{top}
	if qos := podQoS(pod); qos != corev1.PodQOSGuaranteed {
		parts = append(parts, strings.ToLower(string(qos)))
	}
	if driver == criconfig.CgroupDriverSystemd {
		for i := range parts {
			parts[i] = strings.ReplaceAll(parts[i], "-", "_")
		}
		uid := strings.ReplaceAll(string(pod.UID), "-", "_")
		return strings.Join(append(parts, "pod"+uid), "-") + ".slice"
	}
	return "/" + path.Join(append(parts, "pod"+string(pod.UID))...)
}

// TopCgroup is the one above all pods.
func TopCgroup(driver, top string) host.Cgroup {
	if driver == criconfig.CgroupDriverSystemd {
		return host.Cgroup{Parent: strings.ReplaceAll(top, "-", "_") + ".slice", Systemd: true}
	}
	return host.Cgroup{Parent: "/" + top}
}

// Cgroup is the pod's cgroup with its limits, and the weight of its class.
func (n Converter) Cgroup(pod *corev1.Pod, driver string) host.Cgroup {
	res := Resources(podResources(pod))
	c := host.Cgroup{
		Parent: cgroupParent(driver, n.cfg.CgroupParent, pod), Systemd: driver == criconfig.CgroupDriverSystemd,
		Shares: res.GetCpuShares(), Quota: res.GetCpuQuota(), Period: res.GetCpuPeriod(),
		Memory: res.GetMemoryLimitInBytes(), PIDs: n.cfg.PodPidsLimit,
		HugePages: podHugePages(pod),
	}
	switch podQoS(pod) {
	case corev1.PodQOSBestEffort:
		c.QOSShares = cfs.MinShares
	case corev1.PodQOSBurstable:
		c.QOSSum = true
	}
	return c
}
