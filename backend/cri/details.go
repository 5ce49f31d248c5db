package cri

import (
	"context"
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

const (
	// oomSettle is how long after a kill the runtime may still learn that it was
	// for memory: the kernel reports the two separately.
	oomSettle = 3 * time.Second
	killed    = 137
	// maxForeign bounds the ids remembered as not ours.
	maxForeign = 4096
)

// details remembers what a listing does not say and what never changes once
// said, keyed by id: a running container's start, a dead one's end, a sandbox's
// addresses, and which pod an id belongs to.
type details struct {
	mu         sync.Mutex
	containers map[string]*runtimeapi.ContainerStatus
	addresses  map[string][]string
	owners     map[string]types.UID
	foreign    map[string]bool
	// launched holds the newest sandbox that this process made of a pod; fresh the
	// containers that it started and has not inspected since, with their pods.
	launched map[types.UID]backend.Ref
	fresh    map[string]types.UID
	// waiting holds a channel for each pod whose next hint a caller awaits.
	waiting map[types.UID]chan struct{}
	// enforced are the resources that the runtime holds containers to; resized those
	// that this process gave them.
	enforced map[string]*runtimeapi.LinuxContainerResources
	resized  map[string]corev1.ResourceRequirements
	// limited are the limits that this process last gave the cgroups of pods.
	limited map[types.UID]podLimits
}

// podLimits are those of a pod's cgroup that a resize changes, as in [host.Cgroup].
type podLimits struct{ shares, quota, period, memory int64 }

func podLimitsOf(c host.Cgroup) podLimits { return podLimits{c.Shares, c.Quota, c.Period, c.Memory} }

func newDetails() *details {
	return &details{
		containers: map[string]*runtimeapi.ContainerStatus{},
		addresses:  map[string][]string{},
		owners:     map[string]types.UID{},
		foreign:    map[string]bool{},
		launched:   map[types.UID]backend.Ref{},
		fresh:      map[string]types.UID{},
		waiting:    map[types.UID]chan struct{}{},
		enforced:   map[string]*runtimeapi.LinuxContainerResources{},
		resized:    map[string]corev1.ResourceRequirements{},
		limited:    map[types.UID]podLimits{},
	}
}

// Own remembers the pod of a sandbox or container.
func (d *details) Own(id string, uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owners[id] = uid
	delete(d.foreign, id)
}

// launch remembers the sandbox that was made of an attempt.
func (d *details) launch(ref backend.Ref) {
	d.Own(ref.ID, ref.UID)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.launched[ref.UID] = ref
}

// launchedAs completes the name of an attempt by its sandbox, if this process made it
// and none since.
func (d *details) launchedAs(ref backend.Ref) (backend.Ref, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	made, ok := d.launched[ref.UID]
	return made, ok && made.Attempt == ref.Attempt
}

// start remembers a container that was started: its status is wanted.
func (d *details) start(id string, uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fresh[id] = uid
}

// started are the containers of these pods that were started and not inspected since.
func (d *details) started(uids []types.UID) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ids []string
	for id, uid := range d.fresh {
		if slices.Contains(uids, uid) {
			ids = append(ids, id)
		}
	}
	return ids
}

// inspected notes that a container was inspected.
func (d *details) inspected(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.fresh, id)
}

// Owner returns the pod of an id; known is also true of what is not ours, whose
// UID is empty.
func (d *details) Owner(id string) (uid types.UID, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if uid, ok := d.owners[id]; ok {
		return uid, true
	}
	return "", d.foreign[id]
}

// Disown remembers that an id is not ours.
func (d *details) Disown(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.foreign) >= maxForeign {
		clear(d.foreign)
	}
	d.foreign[id] = true
}

// changed is closed at the next hint about a pod.
func (d *details) changed(uid types.UID) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting[uid] == nil {
		d.waiting[uid] = make(chan struct{})
	}
	return d.waiting[uid]
}

// Notify wakes those who await a hint about a pod.
func (d *details) Notify(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.waiting[uid]; c != nil {
		close(c)
		delete(d.waiting, uid)
	}
}

// enforce remembers what the runtime holds a container to.
func (d *details) enforce(id string, resources *runtimeapi.LinuxContainerResources) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.enforced[id] = resources
}

// memoryLimit is what the runtime holds a container to; 0 where it is not known.
func (d *details) memoryLimit(id string) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.enforced[id].GetMemoryLimitInBytes()
}

// resize remembers what a container was resized to.
func (d *details) resize(id string, resources corev1.ResourceRequirements) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.resized[id] = resources
}

// limit remembers what a pod's cgroup is limited to.
func (d *details) limit(uid types.UID, limits podLimits) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.limited[uid] = limits
}

// unlimit forgets what a pod's cgroup is limited to.
func (d *details) unlimit(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.limited, uid)
}

// limitedTo is true of a pod whose cgroup this process gave these limits, and none
// since.
func (d *details) limitedTo(uid types.UID, limits podLimits) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	given, ok := d.limited[uid]
	return ok && given == limits
}

// resources are what a running container was made with, or resized to, as far as
// the runtime's numbers say so; nil if they are not known.
func (d *details) resources(c *runtimeapi.Container) *corev1.ResourceRequirements {
	d.mu.Lock()
	defer d.mu.Unlock()
	was, ok := d.resized[c.GetId()]
	if !ok && json.Unmarshal([]byte(c.GetAnnotations()[convert.AnnotationResources]), &was) != nil {
		return nil
	}
	return resourceFacts(&was, d.enforced[c.GetId()])
}

// Forget drops what is known of a container, to be asked anew.
func (d *details) Forget(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.containers, id)
}

func (d *details) container(id string) *runtimeapi.ContainerStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.containers[id]
}

// keepContainer remembers a status that will not change; now is the host's time.
func (d *details) keepContainer(s *runtimeapi.ContainerStatus, now time.Time) {
	if !lasting(s, now) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.containers[s.GetId()] = s
}

// lasting is true of a status that stays as it is while the state does.
func lasting(s *runtimeapi.ContainerStatus, now time.Time) bool {
	switch s.GetState() {
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return true
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return s.GetExitCode() != killed || now.Sub(time.Unix(0, s.GetFinishedAt())) > oomSettle
	default:
		return false
	}
}

// prune drops what a complete listing, begun when before was taken, no longer
// shows.
func (d *details) prune(before map[string]types.UID, views []*view) {
	listed := map[string]bool{}
	for _, v := range views {
		listed[v.ref.ID] = true
		for _, c := range v.containers {
			listed[c.GetId()] = true
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	gone := false
	for id, uid := range before {
		if !listed[id] {
			gone = true
			if d.launched[uid].ID == id {
				delete(d.launched, uid)
			}
			delete(d.fresh, id)
			delete(d.owners, id)
			delete(d.containers, id)
			delete(d.addresses, id)
			delete(d.enforced, id)
			delete(d.resized, id)
		}
	}
	if !gone {
		return
	}
	live := map[types.UID]bool{}
	for _, uid := range d.owners {
		live[uid] = true
	}
	maps.DeleteFunc(d.limited, func(uid types.UID, _ podLimits) bool { return !live[uid] })
}

// snapshot is the ids known now, for prune.
func (d *details) snapshot() map[string]types.UID {
	d.mu.Lock()
	defer d.mu.Unlock()
	ids := make(map[string]types.UID, len(d.owners))
	for id, uid := range d.owners {
		ids[id] = uid
	}
	return ids
}

// containerStatus is the status of a listed container, from memory where it
// cannot have changed. Nil without an error: it has gone since the listing.
func (r *remote) containerStatus(ctx context.Context, c *runtimeapi.Container) (*runtimeapi.ContainerStatus, error) {
	if s := r.details.container(c.GetId()); s != nil && s.GetState() == c.GetState() {
		return s, nil
	}
	return r.askContainer(ctx, c.GetId())
}

// startedContainer is the status of a container that runs, asked once. Nil
// without an error: it has gone.
func (r *remote) startedContainer(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error) {
	if status := r.details.container(id); status != nil {
		return status, nil
	}
	return r.askContainer(ctx, id)
}

// askContainer asks the runtime and remembers, with the termination message. Nil without an error: not there.
func (r *remote) askContainer(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error) {
	reply, err := r.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: true})
	switch {
	case transport.IsNotFound(err):
		r.details.inspected(id)
		return nil, nil
	case err != nil:
		return nil, transport.Failed(err, "look at container %s", id)
	}
	r.details.inspected(id)
	s := reply.GetStatus()
	final := r.addMessage(ctx, s)
	if s.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
		r.details.enforce(id, resourcesOf(reply))
	}
	if final {
		r.details.keepContainer(s, r.clock.theirs(time.Now()))
	}
	return s, nil
}

// sandboxIPs are the addresses of a ready sandbox, asked once.
func (r *remote) sandboxIPs(ctx context.Context, id string) ([]string, error) {
	r.details.mu.Lock()
	ips, ok := r.details.addresses[id]
	r.details.mu.Unlock()
	if ok {
		return ips, nil
	}
	reply, err := r.runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
	switch {
	case transport.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, transport.Failed(err, "look at sandbox %s", id)
	}
	network := reply.GetStatus().GetNetwork()
	ips = appendIP(ips, network.GetIp())
	for _, ip := range network.GetAdditionalIps() {
		ips = appendIP(ips, ip.GetIp())
	}
	hostNetwork := reply.GetStatus().GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
	if reply.GetStatus().GetState() == runtimeapi.PodSandboxState_SANDBOX_READY && (len(ips) > 0 || hostNetwork) {
		r.details.mu.Lock()
		r.details.addresses[id] = ips
		r.details.mu.Unlock()
	}
	return ips, nil
}

// appendIP leaves out what is no address; on the host's network there is none.
func appendIP(ips []string, ip string) []string {
	if _, err := netip.ParseAddr(ip); err != nil {
		return ips
	}
	return append(ips, ip)
}
