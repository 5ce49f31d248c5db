package cri

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/containerd/log"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/criconfig"
	"github.com/burstlet/burstlet/backend/cri/features"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/sshlink"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

// node implements [backend.Node].
type node struct{ *remote }

// Describe asks the runtime how it is and the host what it is.
func (n node) Describe(ctx context.Context) (backend.NodeFacts, error) {
	version, err := n.runtime.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return backend.NodeFacts{}, n.notCRI(err)
	}
	facts := backend.NodeFacts{
		OS:             "linux",
		RuntimeVersion: version.GetRuntimeName() + "://" + version.GetRuntimeVersion(),
	}
	st, err := n.runtime.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return backend.NodeFacts{}, transport.Failed(err, "ask the container runtime at %s for its status", n.cfg.Endpoint)
	}
	for _, c := range st.GetStatus().GetConditions() {
		switch {
		case c.GetType() == runtimeapi.RuntimeReady && !c.GetStatus():
			return backend.NodeFacts{}, backend.Errorf(
				backend.ErrUnavailable, "the container runtime at %s is not ready: %s: %s", n.cfg.Endpoint, c.GetReason(),
				c.GetMessage(),
			)
		case c.GetType() == runtimeapi.NetworkReady:
			facts.NetworkReady = c.GetStatus()
			if !c.GetStatus() {
				facts.Message = cmp.Or(c.GetMessage(), c.GetReason())
			}
		}
	}
	facts.RuntimeHandlers = handlers(st)
	for _, h := range st.GetRuntimeHandlers() {
		if h.GetFeatures().GetRecursiveReadOnlyMounts() {
			facts.RecursiveReadOnly = append(facts.RecursiveReadOnly, h.GetName())
		}
	}
	facts.UserNamespaces = features.UserNamespaces(st)
	facts.SupplementalGroupsPolicy = st.GetFeatures().GetSupplementalGroupsPolicy()
	if err := n.describeHost(ctx, &facts); err != nil {
		return backend.NodeFacts{}, fmt.Errorf("describe the host: %w", err)
	}
	return facts, nil
}

// notCRI explains a Version call that failed, most of all one that was answered
// by something else than CRI.
func (n node) notCRI(err error) error {
	if status.Code(err) == codes.Unimplemented {
		return backend.Errorf(backend.ErrUnavailable,
			"what listens at %s does not speak CRI v1 (%w): use containerd 1.6 or newer, and see that its cri plugin is not "+
				"in disabled_plugins", n.cfg.Endpoint, err)
	}
	return transport.Failed(err, "ask the container runtime for its version")
}

func (n node) describeHost(ctx context.Context, facts *backend.NodeFacts) error {
	h, err := n.askHost(ctx)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(h.Kubelets, func(k host.Kubelet) bool { return k.Uses(n.socket) }); i >= 0 {
		return backend.Errorf(backend.ErrUnsupported, "a kubelet runs on the host with the same container runtime "+
			"(process %d): "+
			"it would remove every pod that it does not know; stop it, or give burstlet a containerd of its own",
			h.Kubelets[i].PID)
	}
	if err := n.swappable(h); err != nil {
		return err
	}
	facts.Arch, facts.Kernel, facts.OSImage = h.Arch, h.Kernel, h.OSImage
	facts.MachineID, facts.SystemUUID, facts.BootID = h.MachineID, h.SystemUUID, h.BootID
	facts.HostIPs, facts.CgroupVersion = onePerFamily(h.Addresses), cgroupVersion(h)
	facts.Capacity = hostCapacity(h)
	if err := reservable(n.cfg.Reserved, facts.Capacity); err != nil {
		return err
	}
	facts.Reserved = maps.Clone(withHugePages(n.cfg.Reserved, h.HugePages))
	for _, list := range []corev1.ResourceList{facts.Capacity, facts.Reserved} {
		delete(list, criconfig.ReservedPIDs) // no resource of a Node
	}
	return nil
}

// cgroupVersion is 0 for a host without cgroups that limit pods.
func cgroupVersion(h host.Facts) int {
	switch {
	case h.CgroupV2:
		return 2
	case len(h.Controllers) > 0:
		return 1
	}
	return 0
}

// onePerFamily keeps the first address of each family: the API takes no more in
// status.hostIPs.
func onePerFamily(addresses []string) []string {
	var out []string
	seen := map[bool]bool{}
	for _, a := range addresses {
		ip, err := netip.ParseAddr(a)
		if err == nil && !seen[ip.Is4()] {
			seen[ip.Is4()] = true
			out = append(out, a)
		}
	}
	return out
}

// askHost asks what the host is, and how its clock stands to ours. What it lacks may
// come, or no pod may need it: it is logged once, and doctor reports it.
func (r *remote) askHost(ctx context.Context) (host.Facts, error) {
	before := time.Now()
	facts, err := r.host.Facts(ctx)
	if err != nil {
		return host.Facts{}, fmt.Errorf("ask the host what it is: %w", err)
	}
	r.clock.measured(before, facts.Now, time.Now())
	r.factsMu.Lock()
	defer r.factsMu.Unlock()
	others := sshlink.Tenant{Node: r.cfg.NodeIdentity}.Others(facts.Nodes)
	if !r.cfg.Bounded && len(others) > 0 && (r.facts == nil || !slices.Equal(facts.Nodes, r.facts.Nodes)) {
		log.G(ctx).WithField("nodes", others).
			Warn("pods of other nodes are on the host too, and this node offers all that it has: " + sshlink.PartAdvice)
	}
	if r.facts == nil || !slices.Equal(r.facts.Lacks, facts.Lacks) {
		for _, lack := range facts.Lacks {
			log.G(ctx).WithField("lacks", lack).Warn("the pods' host lacks something that pods may need")
		}
	}
	r.facts = &facts
	return facts, nil
}

// hostFacts are what the host was when it was last asked, at least once.
func (r *remote) hostFacts(ctx context.Context) (host.Facts, error) {
	r.factsMu.Lock()
	known := r.facts
	r.factsMu.Unlock()
	if known != nil {
		return *known, nil
	}
	return r.askHost(ctx)
}

// handlers are the RuntimeClass handlers that the runtime knows: as it says itself
// (containerd 2.0), else those of its configuration.
func handlers(st *runtimeapi.StatusResponse) []string {
	var out []string
	for _, h := range st.GetRuntimeHandlers() {
		out = append(out, h.GetName())
	}
	if len(out) > 0 {
		return out
	}
	c := features.ConfigurationOf(st)
	if len(c.Containerd.Runtimes) == 0 {
		return nil // another runtime, which does not say
	}
	return append([]string{""}, slices.Sorted(maps.Keys(c.Containerd.Runtimes))...)
}

// swappable refuses a host that cannot keep containers to their share of its swap.
func (r *remote) swappable(h host.Facts) error {
	if r.cfg.SwapBehavior != criconfig.LimitedSwap || h.CgroupV2 && (h.SwapLimits || h.Swap == 0) {
		return nil
	}
	what := "cgroups of the host are of version 1: boot it with systemd.unified_cgroup_hierarchy=1"
	if h.CgroupV2 {
		what = "the host's kernel does not limit swap: boot it with swapaccount=1"
	}
	return backend.Errorf(
		backend.ErrUnsupported, "backend.cri.memorySwap.swapBehavior: LimitedSwap: %s, or set NoSwap", what,
	)
}
