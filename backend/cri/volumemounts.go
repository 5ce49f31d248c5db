package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

const (
	hostsPath = "/etc/hosts"
	// hostsFile is in the pod's log directory and goes with it, as messagesDir.
	hostsFile = ".etc-hosts"
)

func (r *remote) podDir(uid types.UID) host.PodDir {
	return host.PodDir{Root: r.cfg.PodsDir, Node: r.cfg.NodeIdentity, UID: string(uid)}
}

// attemptName names an attempt of a container in the pod's directory.
func attemptName(container string, attempt int) string {
	return container + "_" + strconv.Itoa(attempt)
}

// prepareContainer makes what a container needs on the host, in one operation,
// and adds the mounts that it makes to the container's configuration, and the ids of
// the pod's user namespace to both. Beside it the
// attempt before is ended for good, and the pod's addresses are asked for: of them the
// hosts file is made, which is to be written before the container starts; nil for a
// container that mounts its own.
func (c containers) prepareContainer(ctx context.Context, sandbox backend.Ref, spec backend.ContainerSpec, config *runtimeapi.ContainerConfig, podConfig *runtimeapi.PodSandboxConfig,
) (hosts *host.Write, err error) {
	logDir := c.podLogDir(podRef(spec.Pod))
	prepare := host.Preparation{
		Dirs: []string{path.Join(logDir, spec.Container.Name)}, Users: users(spec.Pod, logDir, true),
	}
	mounts, subPaths, err := c.volumeMounts(spec)
	if err != nil {
		return nil, err
	}
	prepare.SubPaths = subPaths
	for _, m := range c.messageMount(spec) {
		prepare.Shared = append(prepare.Shared, m.GetHostPath())
		mounts = append(mounts, m)
	}
	g, gctx := errgroup.WithContext(ctx)
	if managesHosts(&spec.Container) {
		hosts = &host.Write{Path: c.hostsMount(spec).GetHostPath(), Mode: 0o644, Within: true}
		// The runtime makes a directory of what is not there.
		prepare.Writes = append(prepare.Writes, host.Write{Path: hosts.Path, Data: []byte(hostsHead), Mode: hosts.Mode, KeepExisting: true})
		mounts = append(mounts, c.hostsMount(spec))
		g.Go(func() (err error) {
			hosts.Data, err = c.hostsContent(gctx, sandbox, spec.Pod)
			return err
		})
	}
	g.Go(func() error { return c.endBefore(gctx, sandbox, spec) })
	g.Go(func() error {
		prepared, err := c.host.Prepare(gctx, prepare)
		switch {
		case err == nil:
		case len(subPaths) > 0 && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR)):
			// It leads out of its volume, or through a file.
			return backend.Errorf(backend.ErrInvalid, "failed to prepare subPath for a volumeMount of container %q: %w", spec.Container.Name, err)
		default:
			return fmt.Errorf("prepare the host: %w", err)
		}
		setSubPaths(mounts, subPaths, prepared.SubPaths)
		mapMounts(mounts, prepared.FirstUser)
		for _, o := range []*runtimeapi.NamespaceOption{
			config.GetLinux().GetSecurityContext().GetNamespaceOptions(), podConfig.GetLinux().GetSecurityContext().GetNamespaceOptions(),
		} {
			setUsers(o, prepared.FirstUser)
		}
		return nil
	})
	config.Mounts = mounts
	return hosts, g.Wait()
}

// hostsMount is the mount of the pod's hosts file.
func (r *remote) hostsMount(spec backend.ContainerSpec) *runtimeapi.Mount {
	return &runtimeapi.Mount{
		ContainerPath: hostsPath, HostPath: path.Join(r.podLogDir(podRef(spec.Pod)), hostsFile), SelinuxRelabel: true,
		Readonly: isReadOnly(spec.Container.SecurityContext),
	}
}

// writeHosts writes the pod's hosts file; nil is none to write.
func (c containers) writeHosts(ctx context.Context, hosts *host.Write) error {
	if hosts == nil {
		return nil
	}
	if _, err := c.host.Prepare(ctx, host.Preparation{Writes: []host.Write{*hosts}}); err != nil {
		return fmt.Errorf("write the pod's %s: %w", hostsPath, err)
	}
	return nil
}

// setSubPaths puts the paths that were bound in the place of those asked for.
func setSubPaths(mounts []*runtimeapi.Mount, asked []host.SubPath, bound []string) {
	for _, m := range mounts {
		for i := range asked {
			if m.GetHostPath() == asked[i].Target && i < len(bound) {
				m.HostPath = bound[i]
			}
		}
	}
}

func isReadOnly(sc *corev1.SecurityContext) bool {
	return sc != nil && isTrue(sc.ReadOnlyRootFilesystem)
}

// volumeMounts are the container's mounts of volumes, and the subPaths that have to
// be bound for them.
func (r *remote) volumeMounts(spec backend.ContainerSpec) ([]*runtimeapi.Mount, []host.SubPath, error) {
	var mounts []*runtimeapi.Mount
	var subPaths []host.SubPath
	for i := range spec.Container.VolumeMounts {
		m := &spec.Container.VolumeMounts[i]
		if image := imageMount(spec, m); image != nil {
			mounts = append(mounts, image)
			continue
		}
		source, err := r.volumePath(spec.Pod, m)
		if err != nil {
			return nil, nil, err
		}
		mount := &runtimeapi.Mount{
			ContainerPath: containerPath(m.MountPath), HostPath: source.path,
			Readonly:       m.ReadOnly || source.readOnly,
			SelinuxRelabel: source.relabel,
			Propagation:    propagation(m.MountPropagation),
			// The engine has decided on it.
			RecursiveReadOnly: m.RecursiveReadOnly != nil && *m.RecursiveReadOnly == corev1.RecursiveReadOnlyEnabled,
		}
		if m.SubPath != "" || source.within != "" {
			target := r.podDir(spec.Pod.UID).SubPath(attemptName(spec.Container.Name, spec.Attempt), strconv.Itoa(i))
			subPaths = append(subPaths, host.SubPath{
				Volume: source.path, Path: m.SubPath, ReadOnly: source.readOnly, Within: source.within, Target: target,
			})
			mount.HostPath = target
		}
		mounts = append(mounts, mount)
	}
	return mounts, subPaths, nil
}

// containerPath of a mount is absolute: what is relative starts at the root
// (kubelet: makeMounts).
func containerPath(p string) string {
	if path.IsAbs(p) {
		return p
	}
	return path.Join("/", p)
}

func propagation(p *corev1.MountPropagationMode) runtimeapi.MountPropagation {
	if p == nil {
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE
	}
	switch *p {
	case corev1.MountPropagationHostToContainer:
		return runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
	case corev1.MountPropagationBidirectional:
		return runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL
	default:
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE
	}
}

// volumeSource is where a volume stands on the host.
type volumeSource struct {
	path              string
	readOnly, relabel bool
	within            string // as of host.SubPath
}

func (r *remote) volumePath(pod *corev1.Pod, m *corev1.VolumeMount) (volumeSource, error) {
	name := m.Name
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		switch {
		case v.Name != name:
		case v.HostPath != nil:
			allowed, err := r.allowedHostPath(name, v.HostPath.Path, !m.ReadOnly)
			return volumeSource{path: allowed.path, within: allowed.within, readOnly: allowed.readOnly}, err
		case v.ConfigMap != nil, v.Secret != nil, v.Projected != nil, v.DownwardAPI != nil:
			return volumeSource{path: r.podDir(pod.UID).Volume(name), readOnly: true, relabel: true}, nil
		case v.PersistentVolumeClaim != nil:
			return volumeSource{path: r.podDir(pod.UID).Volume(name), readOnly: v.PersistentVolumeClaim.ReadOnly}, nil
		case v.NFS != nil:
			return volumeSource{path: r.podDir(pod.UID).Volume(name), readOnly: v.NFS.ReadOnly}, nil
		default:
			return volumeSource{path: r.podDir(pod.UID).Volume(name), relabel: true}, nil
		}
	}
	return volumeSource{}, backend.Errorf(backend.ErrInvalid, "the pod has no volume %q to mount", name)
}

// managesHosts is false for a container that mounts an /etc/hosts of its own.
func managesHosts(c *corev1.Container) bool {
	for i := range c.VolumeMounts {
		if c.VolumeMounts[i].MountPath == hostsPath {
			return false
		}
	}
	return true
}

const (
	hostsHead = "# Kubernetes-managed hosts file.\n" +
		"127.0.0.1\tlocalhost\n" +
		"::1\tlocalhost ip6-localhost ip6-loopback\n" +
		"fe00::0\tip6-localnet\n" +
		"fe00::0\tip6-mcastprefix\n" +
		"fe00::1\tip6-allnodes\n" +
		"fe00::2\tip6-allrouters\n"
	hostsHeadHostNetwork = "# Kubernetes-managed hosts file (host network).\n"
	maxHosts             = 1 << 20
)

// hostsContent is the pod's /etc/hosts, as the kubelet writes it: the host's own
// for a pod on its network.
func (r *remote) hostsContent(ctx context.Context, sandbox backend.Ref, pod *corev1.Pod) ([]byte, error) {
	if pod.Spec.HostNetwork {
		own, err := r.host.ReadFile(ctx, hostsPath, maxHosts)
		if err != nil && !isNotExist(err) {
			return nil, fmt.Errorf("read the host's %s: %w", hostsPath, err)
		}
		return []byte(hostsHeadHostNetwork + string(own) + aliases(pod.Spec.HostAliases)), nil
	}
	ips, err := r.sandboxIPs(ctx, sandbox.ID)
	if err != nil {
		return nil, err
	}
	return []byte(hostsHead + ownNames(ips, pod, r.cfg.ClusterDomain) + aliases(pod.Spec.HostAliases)), nil
}

// ownNames are the lines of the pod itself.
func ownNames(ips []string, pod *corev1.Pod, domain string) string {
	var b strings.Builder
	for _, ip := range ips {
		if full := fqdn(pod, domain); full != "" {
			fmt.Fprintf(&b, "%s\t%s\t%s\n", ip, full, shortName(pod))
		} else {
			fmt.Fprintf(&b, "%s\t%s\n", ip, shortName(pod))
		}
	}
	return b.String()
}

func aliases(all []corev1.HostAlias) string {
	if len(all) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n# Entries added by HostAliases.\n")
	for _, a := range all {
		fmt.Fprintf(&b, "%s\t%s\n", a.IP, strings.Join(a.Hostnames, "\t"))
	}
	return b.String()
}
