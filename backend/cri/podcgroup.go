package cri

import (
	"context"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

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
		c.QOSShares = minShares
	case corev1.PodQOSBurstable:
		c.QOSShares = r.shares.with(pod.UID, res.GetCpuShares())
	}
	return c, nil
}

// isBurstable is true of the cgroup of a pod of that class (cgroupParent).
func isBurstable(parent string) bool {
	return strings.Contains(parent, "/burstable/pod") || strings.Contains(parent, "-burstable-pod")
}

// classShares sums up the CPU shares of burstable pods: their class has the sum, as
// on a kubelet.
type classShares struct {
	mu   sync.Mutex
	pods map[types.UID]int64
}

func newClassShares() *classShares { return &classShares{pods: map[types.UID]int64{}} }

// with adds a pod and returns the sum.
func (c *classShares) with(uid types.UID, shares int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pods[uid] = shares
	var sum int64
	for _, s := range c.pods {
		sum += s
	}
	return min(sum, maxShares)
}

// listed takes a complete listing: pods that it does not show count no more, unless
// they were launched since it began, which known tells.
func (c *classShares) listed(known map[string]types.UID, views []*view) {
	before := map[types.UID]bool{}
	for _, uid := range known {
		before[uid] = true
	}
	seen := map[types.UID]int64{}
	for _, v := range views {
		if v.sandbox == nil || !v.ready() {
			continue
		}
		annotations := v.sandbox.GetAnnotations()
		// An earlier burstlet let pods of other classes set it.
		if s, err := strconv.ParseInt(annotations[annotationShares], 10, 64); err == nil && isBurstable(annotations[annotationCgroup]) {
			seen[v.ref.UID] = min(max(s, minShares), maxShares)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid := range c.pods {
		if _, ok := seen[uid]; !ok && before[uid] {
			delete(c.pods, uid)
		}
	}
	for uid, s := range seen {
		if _, ok := c.pods[uid]; !ok {
			c.pods[uid] = s
		}
	}
}
