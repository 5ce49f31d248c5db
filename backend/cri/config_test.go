package cri

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

func TestValidate(t *testing.T) {
	good := Config{Endpoint: "unix:///run/containerd/containerd.sock", NodeIdentity: "uid/node"}
	must(t, good.Validate())
	for field, set := range map[string]func(*Config){
		"endpoint":         func(c *Config) { c.Endpoint = "" },
		"endpoint: ":       func(c *Config) { c.Endpoint = "tcp://host:1" },
		"endpoint: I":      func(c *Config) { c.Endpoint = "unix://relative.sock" },
		"nodeIdentity":     func(c *Config) { c.NodeIdentity = "" },
		"nodeIdentity: ":   func(c *Config) { c.NodeIdentity = "two words" },
		"podLogsDir":       func(c *Config) { c.PodLogsDir = "logs" },
		"containerLogsDir": func(c *Config) { c.ContainerLogsDir = "logs" },
		"resolvConf":       func(c *Config) { c.ResolvConf = "resolv.conf" },
		"cgroupParent":     func(c *Config) { c.CgroupParent = "/a/b" },
		"cgroupDriver":     func(c *Config) { c.CgroupDriver = "magic" },
		"clusterDNS[1]":    func(c *Config) { c.ClusterDNS = []string{"10.0.0.1", "dns"} },
		"clusterDomain":    func(c *Config) { c.ClusterDomain = "not a domain" },
	} {
		c := good
		set(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("%v, want an error that begins with %q", err, field)
		}
		if _, err := New(c, backend.Always); err == nil {
			t.Errorf("New took a bad %s", field)
		}
	}
}

// describe connects to a socket and asks.
func describe(t *testing.T, socket string) error {
	t.Helper()
	w := &world{access: here(), cfg: Config{Endpoint: "unix://" + socket, NodeIdentity: "n"}}
	r, _ := w.connect(t)
	_, err := node{r}.Describe(t.Context())
	return err
}

func TestSocketTrouble(t *testing.T) {
	dir := t.TempDir()
	closed := filepath.Join(dir, "closed.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: closed})
	must(t, err)
	listener.SetUnlinkOnClose(false)
	must(t, listener.Close())

	other := filepath.Join(dir, "other.sock")
	l, err := net.Listen("unix", other)
	must(t, err)
	server := grpc.NewServer()
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})

	missing := filepath.Join(dir, "missing.sock")
	for socket, want := range map[string]string{
		missing: "the socket is not there",
		closed:  "nothing listens on the socket",
		other:   "does not speak CRI v1",
	} {
		err := describe(t, socket)
		wantClass(t, err, backend.ErrUnavailable)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), socket) {
			t.Errorf("%s: %v, want it to say %q", socket, err, want)
		}
	}
}

func TestReconnects(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	socket, ok := w.cfg.Socket()
	if !ok {
		t.Fatal(w.cfg.Endpoint)
	}
	moved := socket + ".moved"
	must(t, os.Rename(socket, moved))
	_, err := pods{r}.List(t.Context())
	wantClass(t, err, backend.ErrUnavailable)
	must(t, os.Rename(moved, socket))
	eventually(t, "the backend answers again", func() bool {
		_, err := pods{r}.List(t.Context())
		return err == nil
	})
}

// A runtime says of each of its handlers whether it can make mounts read-only with all
// below them, and is asked to for those of which the engine decided so.
func TestRecursiveReadOnly(t *testing.T) {
	handlers := []*runtimeapi.RuntimeHandler{
		{Name: "", Features: &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true}}, {Name: "kata"},
	}
	w := newWorld(t, func(s *fakecri.Server) { s.Handlers = handlers })
	r, _ := w.connect(t)
	f, err := node{r}.Describe(t.Context())
	must(t, err)
	if !slices.Equal(f.RuntimeHandlers, []string{"", "kata"}) || !slices.Equal(f.RecursiveReadOnly, []string{""}) {
		t.Errorf("handlers %q, of these read-only with all below %q", f.RuntimeHandlers, f.RecursiveReadOnly)
	}
	for _, below := range []bool{false, true} {
		spec := containerSpec(withHostPath("/srv", ""), "main", 0)
		spec.Container.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v", ReadOnly: true}}
		if below {
			spec.Container.VolumeMounts[0].RecursiveReadOnly = new(corev1.RecursiveReadOnlyEnabled)
		}
		mounts, _, err := r.convert.VolumeMounts(spec)
		must(t, err)
		if m := mounts[0]; m.GetRecursiveReadOnly() != below || !m.GetReadonly() ||
			m.GetPropagation() != runtimeapi.MountPropagation_PROPAGATION_PRIVATE {
			t.Errorf("the mount is %v, want it read-only, below it too: %t", m, below)
		}
	}
}

func TestDescribe(t *testing.T) {
	w := newWorld(t, func(s *fakecri.Server) { s.NotReady, s.StrictGroups = "cni plugin not initialized", true })
	r, _ := w.connect(t)
	f, err := node{r}.Describe(t.Context())
	must(t, err)
	if f.RuntimeVersion != "containerd://1.6.20" || f.OS != "linux" || f.Arch == "" || f.Kernel == "" || f.OSImage == "" {
		t.Errorf("%+v", f)
	}
	if !f.SupplementalGroupsPolicy {
		t.Error("what the runtime can do with groups is not told")
	}
	if f.NetworkReady || !strings.Contains(f.Message, "cni plugin not initialized") {
		t.Errorf("network: %v %q", f.NetworkReady, f.Message)
	}
	if f.Capacity.Cpu().IsZero() || f.Capacity.Memory().Value() < 1<<20 {
		t.Errorf("capacity %v", f.Capacity)
	}
	if _, ok := f.Capacity[corev1.ResourcePods]; ok {
		t.Error("the number of pods is configuration, not capacity of the host")
	}
}

func TestCgroupVersionOfHosts(t *testing.T) {
	for want, facts := range map[int]host.Facts{
		0: {}, 1: {Controllers: []string{"memory"}}, 2: {CgroupV2: true, Controllers: []string{"memory"}},
	} {
		r := &remote{host: factsHost{facts: facts}}
		var got backend.NodeFacts
		if err := (node{r}).describeHost(t.Context(), &got); err != nil || got.CgroupVersion != want {
			t.Errorf("%+v: version %d, %v", facts, got.CgroupVersion, err)
		}
	}
}

// factsHost is what it is said to be.
type factsHost struct {
	host.Host
	facts host.Facts
}

func (h factsHost) Facts(context.Context) (host.Facts, error) {
	f := h.facts
	f.Now, f.CPUs, f.Memory = time.Now(), 1, 1<<30
	return f, nil
}

func TestOneAddressOfAFamily(t *testing.T) {
	got := onePerFamily([]string{"198.19.0.1", "fd00::1", "no address", "198.18.0.1", "fd00::2"})
	if diff := cmp.Diff([]string{"198.19.0.1", "fd00::1"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestDefaultDeadline(t *testing.T) {
	left := make(chan time.Duration, 2)
	w := newWorld(t, func(s *fakecri.Server) {
		s.Before = func(ctx context.Context, _ string, _ any) error {
			deadline, _ := ctx.Deadline()
			left <- time.Until(deadline)
			return nil
		}
	})
	r, _ := w.connect(t)
	_, err := pods{r}.List(context.WithoutCancel(t.Context()))
	must(t, err)
	if d := <-left; d <= 0 || d > transport.CallTimeout {
		t.Errorf("a call has %v left, want at most %v", d, transport.CallTimeout)
	}
}
