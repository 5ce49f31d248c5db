package cri

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// Explain says what a launch would become with a configuration, by the code that
// launches; nothing is called. Containers of the launch are resolved; of volumes only the pod's are
// looked at. Errors: Invalid, as a launch has them.
func Explain(ctx context.Context, cfg Config, launch backend.LaunchSpec) (Preview, error) {
	if err := cfg.Validate(); err != nil {
		return Preview{}, fmt.Errorf("configure cri backend: %w", err)
	}
	cfg = cfg.withDefaults()
	out := Preview{QOSClass: string(podQoS(launch.Pod))}
	if cfg.CgroupDriver == CgroupDriverAuto {
		cfg.CgroupDriver = CgroupDriverCgroupfs
		out.Notes = append(out.Notes, "the runtime says which cgroup driver it uses; with systemd the cgroup is "+
			cgroupParent(CgroupDriverSystemd, cfg.CgroupParent, launch.Pod))
	}
	r := &remote{cfg: cfg, shares: newClassShares()}
	var err error
	if out.Sandbox, err = r.explainSandbox(ctx, launch.Pod); err != nil {
		return Preview{}, err
	}
	if out.Volumes, err = r.explainVolumes(launch); err != nil {
		return Preview{}, err
	}
	for i := range launch.Containers {
		c, err := r.explainContainer(launch.Containers, i)
		if err != nil {
			return Preview{}, err
		}
		out.Containers = append(out.Containers, c)
	}
	out.Notes = append(out.Notes, hostNotes(launch.Pod, out)...)
	return out, nil
}

// hostNotes say what only the host can tell of a pod.
func hostNotes(pod *corev1.Pod, p Preview) []string {
	var out []string
	if p.QOSClass == string(corev1.PodQOSBurstable) && pod.Spec.PriorityClassName != nodeCriticalClass {
		out = append(out, "oom_score_adj of a burstable container depends on the host's memory: 3 to 999, the lower the more of it the container requests")
	}
	if field := appArmorField(pod); field != "" {
		out = append(out, field+": refused on a host without AppArmor")
	}
	if groupsPolicy(pod) == runtimeapi.SupplementalGroupsPolicy_Strict {
		out = append(out, "spec.securityContext.supplementalGroupsPolicy: Strict is refused by a runtime before containerd 2.0")
	}
	if slices.ContainsFunc(p.Containers, func(c ContainerPreview) bool { return strings.Contains(c.Security.User, "must not be root") }) {
		out = append(out, "runAsNonRoot: the pod fails where the image's user is root or a name")
	}
	return out
}

func (r *remote) explainSandbox(ctx context.Context, pod *corev1.Pod) (SandboxPreview, error) {
	config, err := r.sandboxConfig(ctx, pod, 0)
	if err != nil {
		return SandboxPreview{}, err
	}
	cgroup, err := r.podCgroup(ctx, pod)
	if err != nil {
		return SandboxPreview{}, err
	}
	linux := config.GetLinux()
	out := SandboxPreview{
		Hostname: config.GetHostname(), Namespaces: explainNamespaces(linux.GetSecurityContext().GetNamespaceOptions()),
		Cgroup:    cgroup.Parent,
		Resources: ResourcesPreview{CPUShares: cgroup.Shares, CPUQuota: cgroup.Quota, CPUPeriod: cgroup.Period, Memory: cgroup.Memory},
		PIDs:      cgroup.PIDs, DNS: explainDNS(r.cfg, pod), Sysctls: linux.GetSysctls(), Logs: config.GetLogDirectory(),
	}
	if class := pod.Spec.RuntimeClassName; class != nil {
		out.RuntimeClass = *class
	}
	for _, p := range config.GetPortMappings() {
		out.Ports = append(out.Ports, fmt.Sprintf("%s:%d -> %d/%s", cmp.Or(p.GetHostIp(), "*"), p.GetHostPort(), p.GetContainerPort(), p.GetProtocol()))
	}
	return out, nil
}

func explainNamespaces(o *runtimeapi.NamespaceOption) NamespacesPreview {
	word := func(m runtimeapi.NamespaceMode) string {
		switch m {
		case runtimeapi.NamespaceMode_NODE:
			return "host"
		case runtimeapi.NamespaceMode_CONTAINER:
			return "container"
		default:
			return "pod"
		}
	}
	return NamespacesPreview{Network: word(o.GetNetwork()), IPC: word(o.GetIpc()), PID: word(o.GetPid())}
}

// explainDNS is what the pod's resolv.conf has of the configuration and the pod: the
// host's is not known.
func explainDNS(cfg Config, pod *corev1.Pod) DNSPreview {
	dns := podDNS(cfg, pod, nil)
	out := DNSPreview{Servers: dns.GetServers(), Searches: dns.GetSearches(), Options: dns.GetOptions()}
	// What a host's could say shows whether it would be taken.
	const server, search = "192.0.2.255", "host.invalid"
	with := podDNS(cfg, pod, []byte("nameserver "+server+"\nsearch "+search+"\n"))
	out.OfHost = slices.Contains(with.GetServers(), server)
	out.HostSearches = !out.OfHost && slices.Contains(with.GetSearches(), search)
	return out
}

// explainVolumes are the volumes that some container mounts.
func (r *remote) explainVolumes(launch backend.LaunchSpec) ([]VolumePreview, error) {
	mounted := map[string]bool{}
	for i := range launch.Containers {
		for _, m := range launch.Containers[i].Container.VolumeMounts {
			mounted[m.Name] = true
		}
	}
	var out []VolumePreview
	for i := range launch.Pod.Spec.Volumes {
		v := &launch.Pod.Spec.Volumes[i]
		if !mounted[v.Name] {
			continue
		}
		one, err := r.explainVolume(launch.Pod, v)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

func (r *remote) explainVolume(pod *corev1.Pod, v *corev1.Volume) (VolumePreview, error) {
	spec := backend.VolumeSpec{Pod: pod, Name: v.Name, Source: v.VolumeSource}
	out := VolumePreview{Name: v.Name, Path: r.podDir(pod.UID).Volume(v.Name)}
	switch {
	case v.HostPath != nil:
		return VolumePreview{Name: v.Name, Kind: "host path", Path: v.HostPath.Path}, nil
	case v.PersistentVolumeClaim != nil:
		out.Kind, out.ReadOnly = "claim", v.PersistentVolumeClaim.ReadOnly
		out.Source = "what the PersistentVolume of claim " + v.PersistentVolumeClaim.ClaimName + " says"
		return out, nil
	case v.Ephemeral != nil:
		out.Kind, out.Source = "claim", "what the PersistentVolume of claim "+pod.Name+"-"+v.Name+" says"
		return out, nil
	}
	made, err := files{r}.volume(spec)
	if err != nil {
		return VolumePreview{}, err
	}
	out.Kind, out.Source, out.SizeBytes, out.FSGroup = kindWord(made.Kind), made.Source, made.SizeLimit, made.FSGroup
	out.ReadOnly = made.ReadOnly || v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil || (v.NFS != nil && v.NFS.ReadOnly)
	return out, nil
}

func kindWord(kind string) string {
	switch kind {
	case host.KindDir:
		return "directory"
	case host.KindTmpfs:
		return "tmpfs"
	case host.KindFiles:
		return "files"
	case host.KindSecretFiles:
		return "files in memory"
	default:
		return kind
	}
}

// explainContainer describes the i-th container of a launch.
func (r *remote) explainContainer(all []backend.ContainerSpec, i int) (ContainerPreview, error) {
	spec := all[i]
	c := &spec.Container
	sc := effectiveSecurity(spec.Pod, c)
	if sc.RunAsUser != nil { // else the image decides
		if err := verifyNonRoot(sc, imageUser{}); err != nil {
			return ContainerPreview{}, backend.Classed(backend.ErrInvalid, fmt.Errorf("container %s: %w", c.Name, err))
		}
	}
	config := r.describe(spec, 0, imageUser{}, 0)
	out := ContainerPreview{
		Name: c.Name, Kind: kindOf(spec), Starts: startsWhen(all, i), Restarts: restartsWhen(spec), Ends: endsWhen(all, i),
		Image: c.Image, Pull: string(pullPolicy(c)), Command: c.Command, Args: c.Args, WorkingDir: c.WorkingDir,
		Security: explainSecurity(sc, config.GetLinux().GetSecurityContext()),
		Cgroup:   explainResources(spec.Pod, config.GetLinux().GetResources()),
		Log:      path.Join(r.podLogDir(podRef(spec.Pod)), config.GetLogPath()),
	}
	for _, e := range c.Env {
		out.Env = append(out.Env, e.Name)
	}
	var err error
	out.Mounts, err = r.explainMounts(spec)
	return out, err
}

// pullPolicy is the container's, else the API server's default for its image.
func pullPolicy(c *corev1.Container) corev1.PullPolicy {
	if c.ImagePullPolicy != "" {
		return c.ImagePullPolicy
	}
	if full, err := normalize(c.Image); err == nil && strings.HasSuffix(full, ":latest") {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func explainResources(pod *corev1.Pod, res *runtimeapi.LinuxContainerResources) ResourcesPreview {
	out := ResourcesPreview{CPUShares: res.GetCpuShares(), CPUQuota: res.GetCpuQuota(), CPUPeriod: res.GetCpuPeriod(), Memory: res.GetMemoryLimitInBytes()}
	if podQoS(pod) != corev1.PodQOSBurstable || pod.Spec.PriorityClassName == nodeCriticalClass {
		score := res.GetOomScoreAdj()
		out.OOMScore = &score
	}
	return out
}

func explainSecurity(sc corev1.SecurityContext, told *runtimeapi.LinuxContainerSecurityContext) SecurityPreview {
	out := SecurityPreview{
		User: "the image's", Group: sc.RunAsGroup, SupplementalGroups: told.GetSupplementalGroups(),
		Privileged: told.GetPrivileged(), ReadOnlyRoot: told.GetReadonlyRootfs(), NoNewPrivileges: told.GetNoNewPrivs(),
		AddCapabilities: told.GetCapabilities().GetAddCapabilities(), DropCapabilities: told.GetCapabilities().GetDropCapabilities(),
		Seccomp: profileWord(told.GetSeccomp()), AppArmor: profileWord(told.GetApparmor()), UnmaskedProc: len(told.GetMaskedPaths()) == 0,
	}
	switch {
	case sc.RunAsUser != nil:
		out.User = strconv.FormatInt(*sc.RunAsUser, 10)
	case isTrue(sc.RunAsNonRoot):
		out.User = "the image's, which must not be root"
	}
	if told.GetSupplementalGroupsPolicy() == runtimeapi.SupplementalGroupsPolicy_Strict {
		out.GroupsPolicy = string(corev1.SupplementalGroupsPolicyStrict)
	}
	return out
}

func profileWord(p *runtimeapi.SecurityProfile) string {
	switch {
	case p == nil, p.GetProfileType() == runtimeapi.SecurityProfile_RuntimeDefault:
		return "runtime default"
	case p.GetProfileType() == runtimeapi.SecurityProfile_Localhost:
		return p.GetLocalhostRef()
	default:
		return "unconfined"
	}
}

// explainMounts are a container's mounts as its start makes them.
func (r *remote) explainMounts(spec backend.ContainerSpec) ([]MountPreview, error) {
	mounts, subPaths, err := r.volumeMounts(spec)
	if err != nil {
		return nil, err
	}
	var out []MountPreview
	for i, m := range mounts { // in the order of the container's
		asked := spec.Container.VolumeMounts[i]
		one := mountPreview(m)
		one.Volume = asked.Name
		for _, s := range subPaths {
			if s.Target == m.GetHostPath() {
				one.SubPath = path.Join(s.Volume, s.Path)
			}
		}
		out = append(out, one)
	}
	for _, m := range r.messageMount(spec) {
		out = append(out, mountPreview(m))
	}
	if managesHosts(&spec.Container) {
		out = append(out, mountPreview(r.hostsMount(spec)))
	}
	return out, nil
}

func mountPreview(m *runtimeapi.Mount) MountPreview {
	out := MountPreview{Path: m.GetContainerPath(), HostPath: m.GetHostPath(), ReadOnly: m.GetReadonly()}
	switch m.GetPropagation() {
	case runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER:
		out.Propagation = string(corev1.MountPropagationHostToContainer)
	case runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL:
		out.Propagation = string(corev1.MountPropagationBidirectional)
	default: // private
	}
	return out
}
