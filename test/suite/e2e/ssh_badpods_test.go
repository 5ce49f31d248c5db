package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/need"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/registry"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// badDisk is the size of the disk that TestBadPodsOverSSH fills.
const badDisk = 192 << 20

// badPods are what is wrong for some pods, on a host that serves all others.
var badPods = []row[*ailing]{
	{"image", lateImage},
	{"host-path", lateHostPath},
	{"nfs", noNFS},
}

// TestBadPodsOverSSH: what keeps a pod from starting is told of in an Event with
// the kubelet's words, and the pod starts when it is put right.
func TestBadPodsOverSSH(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, waiter, 55*time.Second)
	c := theCluster(t)
	a := newAiling(t, c, "ssh-pods", func(cfg *remotehost.Config) { cfg.DiskBytes = badDisk })
	a.start()
	together(t, badPods, row[*ailing].title, func(t *testing.T, r row[*ailing]) {
		l := *a.life
		l.T, l.namespace = t, c.namespace(t, "ssh-pods-"+r.name)
		r.run(&ailing{life: &l, h: a.h})
	})
	noNetwork(a)
	fullDisk(a)
	a.until("the pod that ran runs on", neverRestarted)
}

// lateImage: the image comes into the registry after the pod.
func lateImage(a *ailing) {
	const domain, image = "late.burstlet.test", "late.burstlet.test/app:1"
	reg := registry.New()
	a.must(a.h.ServeRegistry(a.Context(), domain, reg))
	pod := a.create(a.pod(forever, func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = image }))
	a.event(pod, "Failed", "Failed to pull image \""+image+"\"", "not found")
	a.event(pod, "Failed", "Error: ErrImagePull")
	a.until("the pull is retried", waits("ImagePullBackOff", "Back-off pulling image \""+image+"\""))
	a.event(pod, "BackOff", "Back-off pulling image \""+image+"\"")
	busybox, err := images.Busybox()
	a.must(err)
	a.must(reg.Push(busybox, image))
	a.until("the image is pulled", isReady)
	a.event(pod, "Pulled", "Successfully pulled image \""+image+"\"")
}

// lateHostPath: the directory is made after the pod.
func lateHostPath(a *ailing) {
	const dir = "/srv/late"
	kind := corev1.HostPathDirectory
	pod := a.create(a.pod(shell("cat /data/file"), mount("data", corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: dir, Type: &kind},
	})))
	a.event(
		pod, "FailedMount",
		`MountVolume.SetUp failed for volume "data" : hostPath type check failed: `+dir+` is not a directory`,
	)
	a.until("it waits", waits("ContainerCreating"))
	a.must(os.MkdirAll(a.h.Path(dir), 0o755))
	a.must(os.WriteFile(filepath.Join(a.h.Path(dir), "file"), []byte("late\n"), 0o644)) //nolint:gosec // pods read it
	a.until("the volume is mounted", isReady)
	a.says("app", "late")
}

// noNFS: the host has no mount.nfs, which no burstlet brings: the Event names the
// package, and the pod goes when it is told to.
func noNFS(a *ailing) {
	for _, dir := range []string{"/sbin", "/usr/sbin"} {
		if _, err := os.Stat(filepath.Join(dir, "mount.nfs")); err == nil {
			need.Missing(a, "this machine, whose programs the hosts use, has mount.nfs; one without it is needed")
		}
	}
	pod := a.create(a.pod(forever, mount("share", corev1.VolumeSource{
		NFS: &corev1.NFSVolumeSource{Server: "192.0.2.1", Path: "/export"},
	})))
	a.event(
		pod, "FailedMount", `MountVolume.SetUp failed for volume "share"`, "mount failed", "192.0.2.1:/export", "nfs-common",
	)
	force(a.T, a.c, pod)
	a.gone(pod)
}

// gone waits until a pod is.
func (a *ailing) gone(pod *corev1.Pod) {
	a.Helper()
	wait.For(a.T, patience, pod.Name+" is gone", func() error {
		if left := a.h.sandboxes(a.T, string(pod.UID)); len(left) > 0 {
			return fmt.Errorf("sandboxes %v", left)
		}
		return a.c.gone(a.T, a.namespace, pod.Name)
	})
}

// noNetwork: the configuration of CNI goes away. Pods on the host's network start,
// others when it is there again.
func noNetwork(a *ailing) {
	a.recovers("no CNI", func() func() {
		const dir = "/etc/cni/net.d"
		configuration := map[string][]byte{}
		files, err := os.ReadDir(a.h.Path(dir))
		a.must(err)
		for _, f := range files {
			file := filepath.Join(a.h.Path(dir), f.Name())
			configuration[file], err = os.ReadFile(file)
			a.must(err)
			a.must(os.Remove(file))
		}
		a.notReady(
			"KubeletNotReady", "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady", "cni",
		)
		pod := a.bound("no-network")
		a.event(pod, "NetworkNotReady", "network is not ready: container runtime network not ready")
		a.bound("host-network", func(pod *corev1.Pod) { pod.Spec.HostNetwork = true })
		a.runs("host-network")
		return func() {
			for file, data := range configuration { // written: containerd does not see files that are moved there
				a.must(os.WriteFile(file, data, 0o644)) //nolint:gosec // as Debian installs it
			}
		}
	})
	a.runs("no-network")
}

// fullDisk: nothing can be written any more. A pod says so; it starts when there
// is room again.
func fullDisk(a *ailing) {
	a.configMap("settings", map[string]string{"text": string(bytes.Repeat([]byte("0123456789abcdef"), 32<<10))})
	fill := a.h.Path("/var/fill")
	a.must(fillDisk(fill))
	pod := a.bound("no-space", mount("settings", corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: object("settings")},
	}))
	a.event(pod, "FailedMount", `MountVolume.SetUp failed for volume "settings"`, "no space left on device")
	a.must(os.Remove(fill))
	a.runs("no-space")
}

// fillDisk writes a file until there is no room.
func fillDisk(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for block := make([]byte, 1<<20); len(block) > 0; {
		_, err := f.Write(block)
		switch {
		case errors.Is(err, syscall.ENOSPC):
			block = block[:len(block)/2]
		case err != nil:
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}
