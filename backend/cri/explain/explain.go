package explain

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/criconfig"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// Explain says what a launch would become with a configuration, by the code that
// launches; nothing is called. Containers of the launch are resolved; of volumes the
// pod's alone count. Errors: Invalid, as a launch has them.
func Explain(cfg criconfig.Config, launch backend.LaunchSpec) (Preview, error) {
	requests, err := convert.DryRun(cfg, launch)
	if err != nil {
		return Preview{}, err
	}
	out := Preview{
		QOSClass: string(requests.QOSClass), Sandbox: explainSandbox(launch.Pod, &requests),
		Volumes: explainVolumes(launch, &requests),
	}
	if requests.SystemdCgroup != "" {
		out.Notes = append(out.Notes,
			"the runtime says which cgroup driver it uses; with systemd the cgroup is "+requests.SystemdCgroup)
	}
	for i := range launch.Containers {
		out.Containers = append(out.Containers, explainContainer(launch.Containers, i, &requests))
	}
	out.Notes = append(out.Notes, hostNotes(&requests, out)...)
	return out, nil
}

// hostNotes say what only the host can tell of a pod.
func hostNotes(requests *convert.LaunchRequests, p Preview) []string {
	var out []string
	if requests.HostOOMScore {
		out = append(out,
			"oom_score_adj of a burstable container depends on the host's memory: 3 to 999, the lower the more of it the "+
				"container requests")
	}
	if p.Sandbox.Namespaces.User == "pod" {
		out = append(
			out,
			"spec.hostUsers: false is refused where the runtime has no user namespaces (before containerd 2.0 and runc 1.2)",
		)
	}
	if field := requests.AppArmorField; field != "" {
		out = append(out, field+": refused on a host without AppArmor")
	}
	if slices.ContainsFunc(p.Containers, func(c ContainerPreview) bool { return c.Security.GroupsPolicy != "" }) {
		out = append(out,
			"spec.securityContext.supplementalGroupsPolicy: Strict is refused by a runtime before containerd 2.0")
	}
	if slices.ContainsFunc(p.Containers,
		func(c ContainerPreview) bool { return strings.Contains(c.Security.User, "must not be root") }) {
		out = append(out, "runAsNonRoot: the pod fails where the image's user is root or a name")
	}
	return out
}

func explainSandbox(pod *corev1.Pod, requests *convert.LaunchRequests) SandboxPreview {
	config, cgroup := requests.Sandbox, requests.Cgroup
	linux := config.GetLinux()
	out := SandboxPreview{
		Hostname: config.GetHostname(), Namespaces: explainNamespaces(linux.GetSecurityContext().GetNamespaceOptions()),
		Cgroup: cgroup.Parent,
		Resources: ResourcesPreview{
			CPUShares: cgroup.Shares, CPUQuota: cgroup.Quota, CPUPeriod: cgroup.Period, Memory: cgroup.Memory,
		},
		PIDs: cgroup.PIDs, DNS: explainDNS(requests.DNS), Sysctls: linux.GetSysctls(), Logs: config.GetLogDirectory(),
	}
	if class := pod.Spec.RuntimeClassName; class != nil {
		out.RuntimeClass = *class
	}
	for _, p := range config.GetPortMappings() {
		out.Ports = append(out.Ports,
			fmt.Sprintf("%s:%d -> %d/%s", cmp.Or(p.GetHostIp(), "*"), p.GetHostPort(), p.GetContainerPort(), p.GetProtocol()))
	}
	return out
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
	user := runtimeapi.NamespaceMode_NODE
	if o.GetUsernsOptions() != nil {
		user = o.GetUsernsOptions().GetMode()
	}
	return NamespacesPreview{Network: word(o.GetNetwork()), IPC: word(o.GetIpc()), PID: word(o.GetPid()), User: word(user)}
}

// explainDNS is what the pod's resolv.conf has of the configuration and the pod: the
// host's is not known.
func explainDNS(on func(resolvConf []byte) *runtimeapi.DNSConfig) DNSPreview {
	dns := on(nil)
	out := DNSPreview{Servers: dns.GetServers(), Searches: dns.GetSearches(), Options: dns.GetOptions()}
	// What a host's could say shows whether it would be taken.
	const server, search = "192.0.2.255", "host.invalid"
	with := on([]byte("nameserver " + server + "\nsearch " + search + "\n"))
	out.OfHost = slices.Contains(with.GetServers(), server)
	out.HostSearches = !out.OfHost && slices.Contains(with.GetSearches(), search)
	return out
}

// explainVolumes are the volumes that some container mounts.
func explainVolumes(launch backend.LaunchSpec, requests *convert.LaunchRequests) []VolumePreview {
	mounted := map[string]bool{}
	for i := range launch.Containers {
		for _, m := range launch.Containers[i].Container.VolumeMounts {
			mounted[m.Name] = true
		}
	}
	var out []VolumePreview
	for i := range launch.Pod.Spec.Volumes {
		if v := &launch.Pod.Spec.Volumes[i]; mounted[v.Name] {
			out = append(out, explainVolume(launch.Pod, v, requests))
		}
	}
	return out
}

func explainVolume(pod *corev1.Pod, v *corev1.Volume, requests *convert.LaunchRequests) VolumePreview {
	out := VolumePreview{Name: v.Name, Path: requests.Dir.Volume(v.Name)}
	switch {
	case v.HostPath != nil:
		return VolumePreview{Name: v.Name, Kind: "host path", Path: v.HostPath.Path}
	case v.Image != nil:
		return VolumePreview{Name: v.Name, Kind: "image", Source: v.Image.Reference, ReadOnly: true}
	case v.PersistentVolumeClaim != nil:
		out.Kind, out.ReadOnly = "claim", v.PersistentVolumeClaim.ReadOnly
		out.Source = "what the PersistentVolume of claim " + v.PersistentVolumeClaim.ClaimName + " says"
		return out
	case v.Ephemeral != nil:
		out.Kind, out.Source = "claim", "what the PersistentVolume of claim "+pod.Name+"-"+v.Name+" says"
		return out
	}
	made := requests.Volumes[v.Name]
	out.Kind, out.Source, out.SizeBytes, out.FSGroup = kindWord(made.Kind), made.Source, made.SizeLimit, made.FSGroup
	out.ReadOnly = made.ReadOnly || v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil ||
		(v.NFS != nil && v.NFS.ReadOnly)
	return out
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

// explainContainer explains the i-th container of a launch.
func explainContainer(all []backend.ContainerSpec, i int, requests *convert.LaunchRequests) ContainerPreview {
	spec, asked := all[i], &requests.Containers[i]
	c, config := &spec.Container, asked.Config
	out := ContainerPreview{
		Name: c.Name, Kind: kindOf(spec), Starts: startsWhen(all, i), Restarts: restartsWhen(spec), Ends: endsWhen(all, i),
		Image: c.Image, Pull: string(pullPolicy(c, asked.Image)), Command: c.Command, Args: c.Args, WorkingDir: c.WorkingDir,
		Security: explainSecurity(asked.Security, config.GetLinux().GetSecurityContext()),
		Cgroup:   explainResources(config.GetLinux().GetResources(), requests.HostOOMScore),
		Log:      path.Join(requests.Sandbox.GetLogDirectory(), config.GetLogPath()),
		Mounts:   explainMounts(c, asked),
	}
	for _, e := range c.Env {
		out.Env = append(out.Env, e.Name)
	}
	return out
}

// pullPolicy is the container's, else the API server's default for its image, whose full
// name is given.
func pullPolicy(c *corev1.Container, image string) corev1.PullPolicy {
	switch {
	case c.ImagePullPolicy != "":
		return c.ImagePullPolicy
	case strings.HasSuffix(image, ":latest"):
		return corev1.PullAlways
	default:
		return corev1.PullIfNotPresent
	}
}

func explainResources(res *runtimeapi.LinuxContainerResources, hostOOMScore bool) ResourcesPreview {
	out := ResourcesPreview{
		CPUShares: res.GetCpuShares(), CPUQuota: res.GetCpuQuota(), CPUPeriod: res.GetCpuPeriod(),
		Memory: res.GetMemoryLimitInBytes(),
	}
	if !hostOOMScore {
		score := res.GetOomScoreAdj()
		out.OOMScore = &score
	}
	return out
}

func explainSecurity(sc corev1.SecurityContext, told *runtimeapi.LinuxContainerSecurityContext) SecurityPreview {
	out := SecurityPreview{
		User: "the image's", Group: sc.RunAsGroup, SupplementalGroups: told.GetSupplementalGroups(),
		Privileged: told.GetPrivileged(), ReadOnlyRoot: told.GetReadonlyRootfs(), NoNewPrivileges: told.GetNoNewPrivs(),
		AddCapabilities:  told.GetCapabilities().GetAddCapabilities(),
		DropCapabilities: told.GetCapabilities().GetDropCapabilities(),
		Seccomp:          profileWord(told.GetSeccomp()), AppArmor: profileWord(told.GetApparmor()),
		UnmaskedProc: len(told.GetMaskedPaths()) == 0,
	}
	switch {
	case sc.RunAsUser != nil:
		out.User = strconv.FormatInt(*sc.RunAsUser, 10)
	case sc.RunAsNonRoot != nil && *sc.RunAsNonRoot:
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

// explainMounts are a container's mounts as its start makes them: those of volumes, in
// the container's order, come first.
func explainMounts(c *corev1.Container, asked *convert.ContainerRequests) []MountPreview {
	var out []MountPreview
	for i, m := range asked.Config.GetMounts() {
		one := mountPreview(m)
		if i < len(c.VolumeMounts) {
			one.Volume = c.VolumeMounts[i].Name
		}
		for _, s := range asked.SubPaths {
			if s.Target == m.GetHostPath() {
				one.SubPath = path.Join(s.Volume, s.Path)
			}
		}
		out = append(out, one)
	}
	return out
}

func mountPreview(m *runtimeapi.Mount) MountPreview {
	out := MountPreview{
		Path: m.GetContainerPath(), HostPath: m.GetHostPath(), Image: m.GetImage().GetUserSpecifiedImage(),
		SubPath: m.GetImageSubPath(), ReadOnly: m.GetReadonly(),
	}
	switch m.GetPropagation() {
	case runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER:
		out.Propagation = string(corev1.MountPropagationHostToContainer)
	case runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL:
		out.Propagation = string(corev1.MountPropagationBidirectional)
	default: // private
	}
	return out
}
