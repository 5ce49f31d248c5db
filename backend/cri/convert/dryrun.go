package convert

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/criconfig"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/imageref"
)

// LaunchRequests are what a launch asks of the runtime and of the host.
type LaunchRequests struct {
	// QOSClass is the pod's.
	QOSClass corev1.PodQOSClass
	// Sandbox is the configuration of the sandbox, without its DNS.
	Sandbox *runtimeapi.PodSandboxConfig
	// Cgroup is the pod's cgroup; where the configuration leaves the driver to the
	// runtime, it is that of cgroupfs.
	Cgroup host.Cgroup
	// SystemdCgroup is then the parent of the driver systemd; else empty.
	SystemdCgroup string
	// DNS returns the pod's resolver configuration on a host with a resolv.conf.
	DNS func(resolvConf []byte) *runtimeapi.DNSConfig
	// Dir is the pod's directory on the host.
	Dir host.PodDir
	// Volumes are those that the host makes and some container mounts, by name. What
	// claims are bound to is not known here.
	Volumes map[string]host.Volume
	// Containers are in the order of the launch.
	Containers []ContainerRequests
	// HostOOMScore is true where oom_score_adj of containers depends on the host's
	// memory.
	HostOOMScore bool
	// AppArmorField is the first field that asks for an AppArmor profile; empty: none.
	AppArmorField string
}

// ContainerRequests are what the start of a container asks.
type ContainerRequests struct {
	// Config is the container's, with its mounts, for a host and an image that are not
	// known.
	Config *runtimeapi.ContainerConfig
	// SubPaths are bound for the mounts.
	SubPaths []host.SubPath
	// Security is the container's security context with the pod's in what it leaves
	// open.
	Security corev1.SecurityContext
	// Image is the image's full name; empty where it is not one.
	Image string
}

// DryRun makes the requests of a launch by the code that launches, and calls nothing.
// Containers of the launch are resolved; of volumes the pod's alone count. Errors:
// Invalid, as a launch has them.
func DryRun(cfg criconfig.Config, launch backend.LaunchSpec) (LaunchRequests, error) {
	if err := cfg.Validate(); err != nil {
		return LaunchRequests{}, fmt.Errorf("configure cri backend: %w", err)
	}
	cfg = cfg.WithDefaults()
	pod := launch.Pod
	out := LaunchRequests{
		QOSClass: podQoS(pod), AppArmorField: AppArmorField(pod),
	}
	out.HostOOMScore = out.QOSClass == corev1.PodQOSBurstable && pod.Spec.PriorityClassName != nodeCriticalClass
	if cfg.CgroupDriver == criconfig.CgroupDriverAuto {
		cfg.CgroupDriver = criconfig.CgroupDriverCgroupfs
		out.SystemdCgroup = cgroupParent(criconfig.CgroupDriverSystemd, cfg.CgroupParent, pod)
	}
	r := New(cfg)
	out.DNS = func(resolvConf []byte) *runtimeapi.DNSConfig { return r.DNS(pod, resolvConf) }
	out.Dir = r.PodDir(pod.UID)
	var err error
	if out.Sandbox, err = r.Sandbox(pod, 0, cfg.CgroupDriver); err != nil {
		return LaunchRequests{}, err
	}
	out.Cgroup = r.Cgroup(pod, cfg.CgroupDriver)
	if out.Volumes, err = r.madeVolumes(launch); err != nil {
		return LaunchRequests{}, err
	}
	for _, spec := range launch.Containers {
		c, err := r.containerRequests(spec)
		if err != nil {
			return LaunchRequests{}, err
		}
		out.Containers = append(out.Containers, c)
	}
	return out, nil
}

// madeVolumes are the volumes that the host makes and some container mounts.
func (n Converter) madeVolumes(launch backend.LaunchSpec) (map[string]host.Volume, error) {
	mounted := map[string]bool{}
	for i := range launch.Containers {
		for _, m := range launch.Containers[i].Container.VolumeMounts {
			mounted[m.Name] = true
		}
	}
	out := map[string]host.Volume{}
	for i := range launch.Pod.Spec.Volumes {
		v := &launch.Pod.Spec.Volumes[i]
		if !mounted[v.Name] || v.HostPath != nil || v.Image != nil || v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			continue
		}
		made, err := n.Volume(backend.VolumeSpec{Pod: launch.Pod, Name: v.Name, Source: v.VolumeSource})
		if err != nil {
			return nil, err
		}
		out[v.Name] = made
	}
	return out, nil
}

func (n Converter) containerRequests(spec backend.ContainerSpec) (ContainerRequests, error) {
	c := &spec.Container
	out := ContainerRequests{Security: EffectiveSecurity(spec.Pod, c)}
	if out.Security.RunAsUser != nil { // else the image decides
		if err := VerifyNonRoot(out.Security, ImageUser{}); err != nil {
			return out, backend.Classed(backend.ErrInvalid, fmt.Errorf("container %s: %w", c.Name, err))
		}
	}
	if full, err := imageref.Normalize(c.Image); err == nil {
		out.Image = full
	}
	out.Config = n.Container(spec, 0, ImageUser{}, &host.Facts{})
	var err error
	if out.Config.Mounts, out.SubPaths, err = n.VolumeMounts(spec); err != nil {
		return out, err
	}
	out.Config.Mounts = append(out.Config.Mounts, n.MessageMounts(spec)...)
	if ManagesHosts(c) {
		out.Config.Mounts = append(out.Config.Mounts, n.HostsMount(spec))
	}
	return out, nil
}
