package cri

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend/cfs"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// podCgroup is the pod's cgroup with its limits, and the weight of its class.
func (r *remote) podCgroup(ctx context.Context, pod *corev1.Pod) (host.Cgroup, error) {
	driver, err := r.cgroupDriver(ctx)
	if err != nil {
		return host.Cgroup{}, err
	}
	res := linuxResources(podResources(pod))
	c := host.Cgroup{
		Parent: cgroupParent(driver, r.cfg.CgroupParent, pod), Systemd: driver == CgroupDriverSystemd,
		Shares: res.GetCpuShares(), Quota: res.GetCpuQuota(), Period: res.GetCpuPeriod(),
		Memory: res.GetMemoryLimitInBytes(), PIDs: r.cfg.PodPidsLimit,
		HugePages: podHugePages(pod),
	}
	switch podQoS(pod) {
	case corev1.PodQOSBestEffort:
		c.QOSShares = cfs.MinShares
	case corev1.PodQOSBurstable:
		c.QOSSum = true
	}
	return c, nil
}
