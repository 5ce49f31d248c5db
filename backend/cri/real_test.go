package cri

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/backendtest"
	"github.com/burstlet/burstlet/backend/cri/host/local"
	"github.com/burstlet/burstlet/test/kit/lane"
	testimages "github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/registry"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

const (
	registryHost = "registry.burstlet.test"
	missingImage = registryHost + "/missing:1"
	spareImage   = registryHost + "/spare:1"
	privateImage = registryHost + "/private/busybox:1"
	registryUser = "puller"
	registryPass = "open sesame"
)

// sideBySide is how much is tried on one host at once, whatever -parallel says: it
// waits for the host most of the time.
const sideBySide = 8

// realConfig is a node's configuration for a real host, which it may share with others.
func realConfig(h *remotehost.Host, node string) Config {
	return Config{
		Endpoint:         "unix://" + h.Socket(),
		NodeIdentity:     "cluster/" + node,
		PodsDir:          filepath.Join(h.Shared(), node, "pods"),
		PodLogsDir:       filepath.Join(h.Shared(), node, "logs"),
		ContainerLogsDir: filepath.Join(h.Shared(), node, "links"),
		CgroupParent:     "burstlet-test",
		ClusterDNS:       []string{"198.18.0.53"},
		ClusterDomain:    "cluster.test",
	}
}

// inside reaches a host as a burstlet on it does: containerd, files and cgroups are
// at paths of this machine, and only its network is elsewhere.
func inside(h *remotehost.Host) access {
	here := local.New(local.Options{Root: h.Shared(), CgroupRoot: h.CgroupRoot()})
	return access{host: here, control: hostDialer{h}, streams: hostDialer{h}, may: backend.Always}
}

// hostDialer dials inside a host's network. Its sockets have paths of this machine.
type hostDialer struct{ *remotehost.Host }

func (d hostDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if network == "unix" {
		return localDialer{}.DialContext(ctx, network, address)
	}
	return d.Host.DialContext(ctx, network, address)
}

func TestContractOnContainerd(t *testing.T) {
	lane.From(t, lane.Gate)
	backendtest.Run(t, onContainerd(t, func(_ *testing.T, b backend.Backend) backend.Backend { return b }))
}

// onContainerd is what the suite runs on a local socket; open makes what an engine
// connects to.
func onContainerd(t *testing.T, open func(t *testing.T, b backend.Backend) backend.Backend) backendtest.Factory {
	t.Helper()
	h := remotehost.ForTest(t)
	must(t, h.ServeRegistry(t.Context(), registryHost, testRegistry(t)))
	return contract(func(t *testing.T) backend.Backend {
		r, err := newRemote(realConfig(h, "node-1"), inside(h))
		must(t, err)
		return open(t, *r.backend())
	})
}

// contract is what the suite needs to know of this backend.
func contract(connect func(t *testing.T) backend.Backend) backendtest.Factory {
	return backendtest.Factory{
		New:          func(t *testing.T) func() backend.Backend { return func() backend.Backend { return connect(t) } },
		Image:        testimages.BusyboxRef,
		MissingImage: missingImage,
		SpareImage:   spareImage,
		Lends: []string{
			"Run", "Sweep", "Containers", "Resize", "Files", "Images", "Store", "PullRecords", "Events",
			"Exec", "Attach", "Forward", "Logs", "Dial", "Stats", "Signals", "Checkpoint",
			"SystemLogs", "SystemOOMs", "CgroupsTo",
		},
		AtOnce:     sideBySide,
		Eventually: 3 * time.Minute,
		Poll:       50 * time.Millisecond,
		Slack:      200 * time.Millisecond,
		Shells:     true,
	}
}

// testRegistry has the test images for registryHost. Repositories below private/ want
// registryUser and registryPass.
func testRegistry(t *testing.T) http.Handler {
	t.Helper()
	image, err := testimages.Busybox()
	must(t, err)
	spare, err := mutate.Config(image, v1.Config{Labels: map[string]string{"it": "is another"}})
	must(t, err)
	r := registry.New(registry.Private{Prefix: "private/", User: registryUser, Password: registryPass})
	must(t, r.Push(image, testimages.BusyboxRef, privateImage))
	must(t, r.Push(spare, spareImage))
	return r
}

// TestReal runs what needs a real containerd on one host, each with a node of its
// own: side by side what leaves containerd alone, then what does not.
func TestReal(t *testing.T) {
	lane.From(t, lane.Gate)
	h := remotehost.ForTest(t)
	must(t, h.ServeRegistry(t.Context(), registryHost, testRegistry(t)))
	var running sync.WaitGroup
	places := make(chan struct{}, sideBySide)
	for name, test := range map[string]func(*testing.T, *realWorld){
		"a pod":                                  realPod,
		"refusals":                               realRefusals,
		"statistics":                             realStats,
		"exec ends with its context":             realExecEnds,
		"a streamed exec ends with its context":  realExecStreamEnds,
		"exec carries much":                      realExecCarriesMuch,
		"an ephemeral container sees its target": realEphemeral,
		"a forwarded port":                       realForward,
	} {
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }()
			t.Run(name, func(t *testing.T) { test(t, newRealWorld(t, h)) })
		})
	}
	running.Wait()
	t.Run("callers go away", func(t *testing.T) { callersGoAway(t, newRealWorld(t, h)) })
	t.Run("containerd restarts", func(t *testing.T) { realRestart(t, newRealWorld(t, h)) })
}

// realWorld is one real host and a backend on it.
type realWorld struct {
	host *remotehost.Host
	cfg  Config
	*remote
}

// newRealWorld connects a node of the test's own.
func newRealWorld(t *testing.T, h *remotehost.Host) *realWorld {
	t.Helper()
	_, name, _ := strings.Cut(t.Name(), "/")
	cfg := realConfig(h, name)
	w := &world{cfg: cfg, access: inside(h)}
	r, _ := w.connect(t)
	return &realWorld{host: h, cfg: cfg, remote: r}
}

// run runs a script in a pod of its own and returns its log and facts at the end.
func (w *realWorld) run(t *testing.T, pod *corev1.Pod, script string) (string, backend.PodFacts) {
	t.Helper()
	return w.runMounting(t, pod, nil, script)
}

// runMounting is run for a pod that mounts images.
func (w *realWorld) runMounting(
	t *testing.T, pod *corev1.Pod, volumes []backend.ImageVolume, script string,
) (string, backend.PodFacts) {
	t.Helper()
	ref := w.start(t, pod, script, volumes...)
	stream, err := logs{w.remote}.Open(
		t.Context(), backend.ContainerRef{Pod: ref, Name: "main"}, backend.LogOptions{Follow: true},
	)
	must(t, err)
	text, err := io.ReadAll(stream)
	must(t, err)
	must(t, stream.Close())
	return string(text), inspect(t, w.remote, pod.UID)
}

func (w *realWorld) start(t *testing.T, pod *corev1.Pod, script string, volumes ...backend.ImageVolume) backend.Ref {
	t.Helper()
	c := &pod.Spec.Containers[0]
	c.Image, c.Command = testimages.BusyboxRef, []string{"sh", "-c", script}
	spec := launchSpec(pod, 0)
	must(t, pods{w.remote}.Launch(t.Context(), t.Context(), spec))
	must(t, containers{w.remote}.Start(
		t.Context(), spec.Ref(), backend.ContainerSpec{Pod: pod, Container: *c, Hash: "h", ImageVolumes: volumes},
	))
	return spec.Ref()
}

func realPod(t *testing.T, w *realWorld) {
	pod := testPod("real-1")
	pod.Spec.Hostname = "given"
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsUser: new(int64(1234)), RunAsGroup: new(int64(2345)), FSGroup: new(int64(3456)),
	}
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		ReadOnlyRootFilesystem: new(true), AllowPrivilegeEscalation: new(false),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	pod.Spec.Containers[0].Resources = resources("100m 16Mi", "200m 32Mi")
	text, facts := w.run(t, pod, `hostname; id -u; id -g; id -G; grep -h -E "NoNewPrivs|CapEff" /proc/1/status
		cat /etc/resolv.conf; touch /x 2>/dev/null || echo read-only; exit 3`)
	for _, want := range []string{
		"given\n", "1234\n", "2345\n", "3456", "NoNewPrivs:\t1", "CapEff:\t0000000000000000",
		"search ns.svc.cluster.test svc.cluster.test cluster.test", "nameserver 198.18.0.53", "options ndots:5",
		"read-only\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the container does not see %q:\n%s", want, text)
		}
	}
	c := facts.Containers[0]
	if c.ExitCode != 3 || c.Image != testimages.BusyboxRef || len(facts.IPs) != 1 || !facts.Live {
		t.Errorf("%+v", facts)
	}
	link, err := filepath.EvalSymlinks(filepath.Join(w.cfg.ContainerLogsDir, "name-real-1_ns_main-"+c.ID+".log"))
	must(t, err)
	if want := filepath.Join(w.cfg.PodLogsDir, "ns_name-real-1_real-1", "main", "0.log"); link != want {
		t.Errorf("link leads to %s, want %s", link, want)
	}
	if n := len(podCgroups(t, w, "burstable/podreal-1")); n == 0 {
		t.Error("the pod has no cgroup of its own")
	}
	must(t, pods{w.remote}.Remove(t.Context(), facts.Ref))
	wantClass(t, pods{w.remote}.Remove(t.Context(), facts.Ref), backend.ErrNotFound)
	if left := podCgroups(t, w, "burstable/podreal-1"); len(left) != 0 {
		t.Errorf("cgroups are left: %v", left)
	}
	wantThere(t, filepath.Dir(filepath.Dir(link)), false)
}

func podCgroups(t *testing.T, w *realWorld, pod string) []string {
	t.Helper()
	var out []string
	for _, hierarchy := range []string{"*", ""} {
		dirs, err := filepath.Glob(filepath.Join(w.host.CgroupRoot(), hierarchy, w.cfg.CgroupParent, pod))
		must(t, err)
		out = append(out, dirs...)
	}
	return out
}

func realRefusals(t *testing.T, w *realWorld) {
	pod := testPod("real-2")
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true)}
	pod.Spec.Containers[0].Image = testimages.BusyboxRef
	spec := launchSpec(pod, 0)
	must(t, pods{w.remote}.Launch(t.Context(), t.Context(), spec))
	start := func(name string, command string) error {
		c := corev1.Container{Name: name, Image: testimages.BusyboxRef, Command: []string{command}}
		return containers{w.remote}.Start(t.Context(), spec.Ref(), backend.ContainerSpec{Pod: pod, Container: c, Hash: "h"})
	}
	if err := start("root", "true"); err == nil || !strings.Contains(err.Error(), "image will run as root") {
		t.Errorf("root under runAsNonRoot: %v", err)
	}
	pod.Spec.SecurityContext = nil
	if err := start("lost", "/no/such/program"); backend.Class(err) != "Transient" {
		t.Errorf("a program that is not there: %v", err)
	}
	if c := inspect(t, w.remote, "real-2").Containers; len(c) != 1 || !c[0].NeverRan() || c[0].Reason != "StartError" {
		t.Errorf("%+v, want one that never ran, StartError", c)
	}

	i := w.remote.puller
	_, err := i.Pull(t.Context(), privateImage, nil)
	if backend.Class(err) != "Transient" || !strings.Contains(err.Error(), "401") {
		t.Errorf("pull without credentials: %s: %v", backend.Class(err), err)
	}
	creds := []backend.Credential{{Registry: registryHost, Username: registryUser, Password: "stale"}, {
		Registry: registryHost, Username: registryUser, Password: registryPass,
	}}
	pulled, err := i.Pull(t.Context(), privateImage, creds)
	must(t, err)
	if found, err := i.Find(t.Context(), privateImage); err != nil || found != pulled.ID {
		t.Errorf("found %q, %v; pulled %+v", found, err, pulled)
	}
}

// realRestart: containers outlive containerd, and what was asked is asked again.
func realRestart(t *testing.T, w *realWorld) {
	pod := testPod("real-3")
	ref := w.start(t, pod, "trap '' TERM; while true; do sleep 1; done")
	must(t, pods{w.remote}.Stop(t.Context(), ref, time.Hour))
	must(t, w.host.KillContainerd(t.Context()))
	_, err := pods{w.remote}.List(t.Context())
	wantClass(t, err, backend.ErrUnavailable)
	must(t, w.host.StartContainerd(t.Context()))
	eventually(t, "the backend answers again", func() bool {
		_, err := pods{w.remote}.List(t.Context())
		return err == nil
	})
	if f := inspect(t, w.remote, pod.UID); !f.Live || f.Containers[0].State() != backend.Running {
		t.Fatalf("the container did not outlive containerd: %+v", f)
	}
	must(t, pods{w.remote}.Stop(t.Context(), ref, time.Second))
	eventually(t, "the pod ends", func() bool { return !inspect(t, w.remote, pod.UID).Live })
	if c := inspect(t, w.remote, pod.UID).Containers[0]; c.ExitCode != 137 {
		t.Errorf("%+v, want killed", c)
	}
}
