package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"syscall"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// prepareContainer makes what a container needs on the host, in one operation,
// and adds the mounts that it makes to the container's configuration, and the ids of
// the pod's user namespace to both. Beside it the
// attempt before is ended for good, and the pod's addresses are asked for: of them the
// hosts file is made, which is to be written before the container starts; nil for a
// container that mounts its own.
func (c containers) prepareContainer(
	ctx context.Context, sandbox backend.Ref, spec backend.ContainerSpec,
	config *runtimeapi.ContainerConfig, podConfig *runtimeapi.PodSandboxConfig,
) (hosts *host.Write, err error) {
	logDir := c.convert.LogDir(convert.PodRef(spec.Pod))
	prepare := host.Preparation{
		Dirs: []string{path.Join(logDir, spec.Container.Name)}, Users: convert.Users(spec.Pod, logDir, true),
	}
	mounts, subPaths, err := c.convert.VolumeMounts(spec)
	if err != nil {
		return nil, err
	}
	prepare.SubPaths = subPaths
	for _, m := range c.convert.MessageMounts(spec) {
		prepare.Shared = append(prepare.Shared, m.GetHostPath())
		mounts = append(mounts, m)
	}
	g, gctx := errgroup.WithContext(ctx)
	if convert.ManagesHosts(&spec.Container) {
		hosts = &host.Write{Path: c.convert.HostsMount(spec).GetHostPath(), Mode: 0o644, Within: true}
		// The runtime makes a directory of what is not there.
		prepare.Writes = append(
			prepare.Writes, host.Write{Path: hosts.Path, Data: []byte(convert.HostsHead), Mode: hosts.Mode, KeepExisting: true},
		)
		mounts = append(mounts, c.convert.HostsMount(spec))
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
			return backend.Errorf(
				backend.ErrInvalid, "failed to prepare subPath for a volumeMount of container %q: %w", spec.Container.Name, err,
			)
		default:
			return fmt.Errorf("prepare the host: %w", err)
		}
		convert.SetSubPaths(mounts, subPaths, prepared.SubPaths)
		convert.MapMounts(mounts, prepared.FirstUser)
		for _, o := range []*runtimeapi.NamespaceOption{
			config.GetLinux().GetSecurityContext().GetNamespaceOptions(),
			podConfig.GetLinux().GetSecurityContext().GetNamespaceOptions(),
		} {
			convert.SetUsers(o, prepared.FirstUser)
		}
		return nil
	})
	config.Mounts = mounts
	return hosts, g.Wait()
}

// writeHosts writes the pod's hosts file; nil is none to write.
func (c containers) writeHosts(ctx context.Context, hosts *host.Write) error {
	if hosts == nil {
		return nil
	}
	if _, err := c.host.Prepare(ctx, host.Preparation{Writes: []host.Write{*hosts}}); err != nil {
		return fmt.Errorf("write the pod's %s: %w", convert.HostsPath, err)
	}
	return nil
}

// maxHosts is far beyond what the host has in it.
const maxHosts = 1 << 20

// hostsContent is the pod's /etc/hosts, as the kubelet writes it: the host's own
// for a pod on its network.
func (r *remote) hostsContent(ctx context.Context, sandbox backend.Ref, pod *corev1.Pod) ([]byte, error) {
	if pod.Spec.HostNetwork {
		own, err := r.host.ReadFile(ctx, convert.HostsPath, maxHosts)
		if err != nil && !isNotExist(err) {
			return nil, fmt.Errorf("read the host's %s: %w", convert.HostsPath, err)
		}
		return convert.HostsOnHostNetwork(pod, own), nil
	}
	ips, err := r.sandboxIPs(ctx, sandbox.ID)
	if err != nil {
		return nil, err
	}
	return r.convert.Hosts(pod, ips), nil
}
