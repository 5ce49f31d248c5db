package taskdef

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/fargate"
)

const (
	mib = 1 << 20
	gib = 1 << 30
	// anchorMiB is what the anchor of a pod with several app containers takes.
	anchorMiB = 16
	// execMiB is what ECS Exec takes in each container of a task: amazon-ssm-agent and its
	// worker run in it, as root, and count towards its limit (ECS developer guide, "Monitor
	// Amazon ECS containers with ECS Exec": "will use some CPU and memory"). Unverified: AWS
	// says no number.
	execMiB = 40
)

// reachable is true for a pod whose task has ECS Exec (ECS API, RunTask: it needs a role of
// the task's).
func (s *settings) reachable(cfg Config) bool {
	return cfg.TaskImage != "" && s.taskRole != "" && s.exec
}

// execOf is what ECS Exec takes in each container of a pod's task, in MiB.
func (s *settings) execOf(cfg Config) int64 {
	if s.reachable(cfg) {
		return execMiB
	}
	return 0
}

// reached are the containers that run at a time, with burstlet-agent: ECS Exec has an agent
// in each.
func reached(spec *corev1.PodSpec) int64 {
	n := int64(len(spec.Containers)) + 1
	for i := range spec.InitContainers {
		if backend.IsSidecar(&spec.InitContainers[i]) {
			n++
		}
	}
	return n
}

// amounts are what containers ask for.
type amounts struct {
	fargate.Size
	storage int64 // bytes of ephemeral storage
}

func (a amounts) add(b amounts) amounts {
	return amounts{fargate.Size{CPU: a.CPU + b.CPU, MemoryMiB: a.MemoryMiB + b.MemoryMiB}, a.storage + b.storage}
}

func (a amounts) or(b amounts) amounts {
	return amounts{
		fargate.Size{CPU: max(a.CPU, b.CPU), MemoryMiB: max(a.MemoryMiB, b.MemoryMiB)},
		max(a.storage, b.storage),
	}
}

// needOf is what a pod needs, as the scheduler counts: all app containers and
// sidecars together, or an init container and the sidecars that were started
// before it, whichever is more; in their place what the pod as a whole asks for;
// and the overhead, that of ECS Exec with it, of which exec is each container's in MiB. A
// limit counts before a request, because a task cannot use more than its size.
func needOf(spec *corev1.PodSpec, exec int64) amounts {
	var apps, inits, sidecars amounts
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		n := amountsOf(c.Resources)
		if backend.IsSidecar(c) {
			sidecars = sidecars.add(n)
			n = amounts{}
		}
		inits = inits.or(sidecars.add(n))
	}
	for i := range spec.Containers {
		apps = apps.add(amountsOf(spec.Containers[i].Resources))
	}
	need := inits.or(apps.add(sidecars))
	if spec.Resources != nil {
		whole := amountsOf(*spec.Resources)
		if whole.CPU > 0 {
			need.CPU = whole.CPU
		}
		if whole.MemoryMiB > 0 {
			need.MemoryMiB = whole.MemoryMiB
		}
	}
	if anchored(spec) {
		need.MemoryMiB += anchorMiB
	}
	need.MemoryMiB += exec * reached(spec)
	return need.add(amountsOf(corev1.ResourceRequirements{Requests: spec.Overhead}))
}

func amountsOf(r corev1.ResourceRequirements) amounts {
	amount := func(name corev1.ResourceName) (int64, int64) {
		q, ok := r.Limits[name]
		if !ok || q.IsZero() { // no limit
			q = r.Requests[name]
		}
		return q.MilliValue(), q.Value()
	}
	milli, _ := amount(corev1.ResourceCPU)
	_, bytes := amount(corev1.ResourceMemory)
	_, storage := amount(corev1.ResourceEphemeralStorage)
	// Bounded: absurd quantities must not overflow, alone or in a sum.
	const most = 1 << 50
	milli, bytes, storage = min(milli, most), min(bytes, most), min(storage, most)
	return amounts{fargate.Size{CPU: (milli*1024 + 999) / 1000, MemoryMiB: (bytes + mib - 1) / mib}, storage}
}

// storageOf is the ephemeral storage of a pod's task in GiB: the most of what the
// node or the pod's annotation gives, what the containers ask for, and what the
// emptyDirs on disk may hold. 0 is the default of Fargate, 20.
func storageOf(spec *corev1.PodSpec, given int32) int32 {
	var dirs int64
	for i := range spec.Volumes {
		e := spec.Volumes[i].EmptyDir
		if e != nil && e.SizeLimit != nil && !inMemory(spec, &spec.Volumes[i]) {
			dirs = min(dirs+min(e.SizeLimit.Value(), 1<<50), 1<<50)
		}
	}
	bytes := max(needOf(spec, 0).storage, dirs)
	want := max(int32(min((bytes+gib-1)/gib, 1<<20)), given)
	if want <= fargate.FreeStorageGiB {
		return 0
	}
	return max(want, fargate.MinStorageGiB)
}

// anchored is true for a pod whose task needs an anchor: with several app
// containers none of them may be essential, for the end of one would end all.
func anchored(spec *corev1.PodSpec) bool { return len(spec.Containers) > 1 }
