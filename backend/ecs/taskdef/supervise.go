package taskdef

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/intask"
	"github.com/burstlet/burstlet/backend/resolvconf"
)

// superviseCommand are the first words of a container's command behind its
// supervisor, before its own.
var superviseCommand = []string{"supervise", "--"}

// homeEnv is what a runtime sets to the user's home where nobody else does.
const homeEnv = "HOME"

// reportTime is what a supervisor needs, after its container was killed, for its last
// words, in seconds.
const reportTime = 3

// supervisor is what the supervisor of a container is told. It is of the shape: what
// is of one pod alone travels in the overrides, and what is secret nowhere here.
func (t *translator) supervisor(spec backend.ContainerSpec) (intask.Spec, error) {
	c, pod := &spec.Container, &t.spec.Pod.Spec
	declared := containerIn(pod, c.Name)
	if declared == nil {
		return intask.Spec{}, backend.Errorf(backend.ErrInvalid, "container %s is none of its pod", c.Name)
	}
	image := t.images[c.Name]
	out := intask.Spec{
		Container: c.Name, Identity: identityOfProcesses(pod, c, image), Kept: kept(c, image),
		Grace: graceOf(pod), ImageStopSignal: image.StopSignal,
		Hosts: &intask.Hosts{Aliases: hostAliases(pod.HostAliases)}, DNS: t.dns(),
		SubPaths:        t.plan.subPaths[c.Name],
		InMemory:        inMemoryOf(pod, t.plan.tmpfs[c.Name]),
		MessageFromLogs: c.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError,
	}
	if mountsAt(c, "/etc/hosts") { // it is the volume's then (kubelet: shouldMountHostsFile)
		out.Hosts = nil
	}
	if mountsAt(c, "/etc/resolv.conf") {
		out.DNS = nil
	}
	if c.TerminationMessagePath != corev1.TerminationMessagePathDefault {
		out.MessagePath = c.TerminationMessagePath
	}
	if !spec.Init || sidecarSpec(spec) {
		out.Startup, out.Liveness = probeOf(c.StartupProbe, declared), probeOf(c.LivenessProbe, declared)
		out.Readiness = probeOf(c.ReadinessProbe, declared)
	}
	if l := c.Lifecycle; l != nil {
		if l.StopSignal != nil {
			out.StopSignal = string(*l.StopSignal)
		}
		out.PostStart, out.PreStop = hookOf(l.PostStart, declared), hookOf(l.PreStop, declared)
	}
	return out, nil
}

// inMemoryOf are the emptyDirs in memory that the pod's fsGroup may write to: ECS gives
// them to root.
func inMemoryOf(pod *corev1.PodSpec, volumes []types.Tmpfs) *intask.InMemory {
	if pod.SecurityContext == nil || pod.SecurityContext.FSGroup == nil {
		return nil
	}
	out := intask.InMemory{Group: *pod.SecurityContext.FSGroup}
	for _, v := range volumes {
		if !slices.Contains(v.MountOptions, "ro") {
			out.Paths = append(out.Paths, aws.ToString(v.ContainerPath))
		}
	}
	if len(out.Paths) == 0 {
		return nil
	}
	return &out
}

func mountsAt(c *corev1.Container, path string) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == path })
}

// identityOfProcesses is who the processes of a container are, the container's
// context before the pod's.
func identityOfProcesses(pod *corev1.PodSpec, c *corev1.Container, image ImageConfig) intask.Identity {
	own := c.SecurityContext
	if own == nil {
		own = &corev1.SecurityContext{}
	}
	var out intask.Identity
	out.UID, out.GID = userAndGroup(pod.SecurityContext, own)
	if out.UID == nil {
		out.ImageUser, _, _ = strings.Cut(image.User, ":")
	}
	out.NonRoot = isNonRoot(pod.SecurityContext, own)
	out.NoNewPrivileges = own.AllowPrivilegeEscalation != nil && !*own.AllowPrivilegeEscalation
	if caps := own.Capabilities; caps != nil {
		out.Drop, out.Add = capabilityNames(caps.Drop), capabilityNames(caps.Add)
	}
	if sc := pod.SecurityContext; sc != nil {
		out.Groups = slices.Clone(sc.SupplementalGroups)
		if sc.FSGroup != nil {
			out.Groups = append(out.Groups, *sc.FSGroup)
		}
		out.StrictGroups = sc.SupplementalGroupsPolicy != nil &&
			*sc.SupplementalGroupsPolicy == corev1.SupplementalGroupsPolicyStrict
	}
	return out
}

// kept are the variables that a runtime would set, were they not set already.
func kept(c *corev1.Container, image ImageConfig) []string {
	var out []string
	for _, name := range []string{homeEnv, hostnameEnv} {
		declared := slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == name })
		if declared || slices.ContainsFunc(image.Env, func(v string) bool { return strings.HasPrefix(v, name+"=") }) {
			out = append(out, name)
		}
	}
	return out
}

// graceOf is what a container has between the order to end and SIGKILL, in seconds.
// Of what ECS gives at most, its supervisor needs the last.
func graceOf(pod *corev1.PodSpec) int64 {
	return min(gracePeriod(pod), maxStop-reportTime)
}

func hostAliases(aliases []corev1.HostAlias) []intask.HostAlias {
	var out []intask.HostAlias
	for _, a := range aliases {
		out = append(out, intask.HostAlias{IP: a.IP, Hostnames: a.Hostnames})
	}
	return out
}

// dns is what becomes of the resolver's configuration; nil where it stays the VPC's.
// Names of the cluster are found where its DNS can be reached from tasks
// (Config.ClusterDNS).
func (t *translator) dns() *intask.DNS {
	pod := &t.spec.Pod.Spec
	out := intask.DNS{Policy: intask.DNSDefault}
	switch pod.DNSPolicy {
	case corev1.DNSNone:
		out.Policy = intask.DNSNone
	case corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet, "":
		if len(t.cfg.ClusterDNS) > 0 {
			out.Policy, out.ClusterServers = intask.DNSCluster, t.cfg.ClusterDNS
			out.ClusterSearches = resolvconf.ClusterSearches(t.spec.Pod.Namespace, t.cfg.ClusterDomain)
		}
	case corev1.DNSDefault:
	}
	c := pod.DNSConfig
	if c == nil {
		if out.Policy == intask.DNSDefault {
			return nil
		}
		return &out
	}
	out.Servers, out.Searches = c.Nameservers, c.Searches
	for _, o := range c.Options {
		out.Options = append(out.Options, resolvconf.Option(o.Name, o.Value))
	}
	return &out
}

// supervised puts the supervisor of a container in the place of what it runs: as
// root, from the volume that burstlet-init filled.
func (t *translator) supervised(def *types.ContainerDefinition, spec backend.ContainerSpec) error {
	orders, err := t.supervisor(spec)
	if err != nil {
		return err
	}
	text, err := orders.Encode()
	if err != nil {
		return err
	}
	def.User = aws.String("0:0")
	def.Environment = append(def.Environment, pairs(intask.EnvSupervise, text)...)
	def.StopTimeout = aws.Int32(min(int32(orders.Grace)+reportTime, maxStop))
	def.HealthCheck = healthCheckOf(&spec.Container)
	def.MountPoints = append(def.MountPoints,
		types.MountPoint{
			SourceVolume: aws.String(binVolume), ContainerPath: aws.String(intask.BinDir),
			ReadOnly: aws.Bool(true),
		},
		types.MountPoint{
			SourceVolume:  aws.String(runVolume(spec.Container.Name)),
			ContainerPath: aws.String(intask.RunDir),
		})
	if slices.Contains(orders.Identity.Add, capPtrace) {
		if def.LinuxParameters == nil {
			def.LinuxParameters = &types.LinuxParameters{}
		}
		def.LinuxParameters.Capabilities = &types.KernelCapabilities{Add: []string{capPtrace}}
	}
	return nil
}

// capPtrace is the one capability that Fargate adds (ECS API, KernelCapabilities).
const capPtrace = "SYS_PTRACE"

// defaultCapabilities are those that containers have on Fargate without asking
// (Docker's, in the developer guide's "Task definition differences for Fargate").
var defaultCapabilities = []string{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW",
	"SETFCAP", "SETGID", "SETPCAP",
	"SETUID", "SYS_CHROOT",
}

// Volumes of burstlet's own.
const binVolume = identity.OwnPrefix + "bin"

// runVolume is where the supervisor of a container has its state and its socket: no
// other container of the pod sees it.
func runVolume(container string) string { return identity.OwnPrefix + "run-" + container }

// fqdnOf is a host name of EnvHostname: the pod's, and its full one where it has a
// subdomain (kubelet: GeneratePodHostNameAndDomain).
func fqdnOf(cfg Config, pod *corev1.Pod) string {
	name := hostnameOf(pod)
	if pod.Spec.Subdomain == "" || cfg.ClusterDomain == "" {
		return name
	}
	return name + " " + name + "." + pod.Spec.Subdomain + "." + pod.Namespace + ".svc." + cfg.ClusterDomain
}
