package provider_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/provider"
	"github.com/burstlet/burstlet/provider/kubeletapi"
	"github.com/burstlet/burstlet/test/kit/ports"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

func TestRealNodeUnderANodesCredential(t *testing.T) {
	t.Parallel()
	s := start(t, "real-a", map[string]string{"team": "blue", "node-role.kubernetes.io/burst": ""})
	node := s.node(t)
	if len(node.Spec.Taints) == 0 || node.Labels["team"] != "blue" || node.Labels["type"] != "virtual-kubelet" {
		t.Errorf("registered as %+v", node)
	}
	if _, ok := node.Labels["node-role.kubernetes.io/burst"]; ok {
		t.Error("NodeRestriction let a node set its role: this test shows nothing any more")
	}
	if node.Status.DaemonEndpoints.KubeletEndpoint.Port != int32(s.port) { //nolint:gosec // a port
		t.Errorf("port %d", node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	}
	s.remote.noNetwork.Store(true)
	leases := s.admin.CoordinationV1().Leases("kube-node-lease")
	var first *coordinationv1.Lease
	wait.For(t, patience, "a lease", func() (err error) {
		first, err = leases.Get(t.Context(), s.name, metav1.GetOptions{})
		return err
	})
	if *first.Spec.LeaseDurationSeconds != 40 {
		t.Errorf("lease %+v", first.Spec)
	}
	wait.For(t, patience, "the lease is renewed", func() error {
		lease, err := leases.Get(t.Context(), s.name, metav1.GetOptions{})
		if err == nil && !lease.Spec.RenewTime.After(first.Spec.RenewTime.Time) {
			err = errors.New("not yet")
		}
		return err
	})
	// An administrator may give the role; the node leaves it alone.
	if out, err := s.kubectl(t, "label", "node", s.name, "node-role.kubernetes.io/burst="); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.ready(t, corev1.ConditionFalse)
	s.remote.noNetwork.Store(false)
	s.ready(t, corev1.ConditionTrue)
	if _, ok := s.node(t).Labels["node-role.kubernetes.io/burst"]; !ok {
		t.Error("the role that an administrator gave is gone")
	}
}

func TestRealDeletedNodeIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := start(t, "real-b", nil)
	old := s.node(t)
	if err := s.admin.CoreV1().Nodes().Delete(t.Context(), s.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.ready(t, corev1.ConditionTrue)
	if node := s.node(t); node.UID == old.UID || len(node.Spec.Taints) == 0 {
		t.Errorf("made again as %+v", node.Spec)
	}
}

func TestRealPodsAreHandedOnAndLeftAlone(t *testing.T) {
	t.Parallel()
	s := start(t, "real-c", nil)
	s.pod(t, "left-alone")
	wait.For(t, patience, "a hint", func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.keys["default/left-alone"] == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	one := int64(1)
	if err := s.admin.CoreV1().Pods("default").Delete(t.Context(), "left-alone",
		metav1.DeleteOptions{GracePeriodSeconds: &one}); err != nil {
		t.Fatal(err)
	}
	wait.For(t, patience, "the framework tried to delete it", func() error {
		code, text := s.call(t, "/metrics", "admin", "system:masters")
		if code != http.StatusOK || !strings.Contains(text, `burstlet_framework_writes_dropped_total{verb="delete"}`) {
			return fmt.Errorf("%d %s", code, text)
		}
		return nil
	})
	if _, err := s.admin.CoreV1().Pods("default").Get(t.Context(), "left-alone", metav1.GetOptions{}); err != nil {
		t.Errorf("the pod is gone before its remote: %v", err)
	}
}

func TestRealKubeletAPI(t *testing.T) {
	t.Parallel()
	s := start(t, "real-d", nil)
	const path = "/containerLogs/default/p/c"
	if code, text := s.call(t, path, ""); code != http.StatusUnauthorized {
		t.Errorf("nobody: %d %s", code, text)
	}
	if code, text := s.call(t, path, "stranger"); code != http.StatusForbidden ||
		!strings.Contains(text, "user=stranger, verb=get, resource=nodes, subresource(s)=[proxy]") {
		t.Errorf("stranger: %d %s", code, text)
	}
	if code, text := s.call(t, path, "admin", "system:masters"); code != http.StatusOK ||
		text != "log of p previous=false\n" {
		t.Errorf("admin: %d %s", code, text)
	}
	if code, text := s.call(t, "/containerLogs/default/p/x", "admin", "system:masters"); code != http.StatusNotFound {
		t.Errorf("unknown container: %d %s", code, text)
	}
	if code, text := s.call(t, path+"?tailLines=-1", "admin", "system:masters"); code != http.StatusBadRequest ||
		!strings.Contains(text, "tailLines") {
		t.Errorf("bad parameter: %d %s", code, text)
	}
	if code, text := s.call(t, "/healthz", "admin", "system:masters"); code != http.StatusOK || text != "ok" {
		t.Errorf("healthz: %d %s", code, text)
	}
}

func TestRealKubectlLogs(t *testing.T) {
	t.Parallel()
	s := start(t, "real-e", nil)
	s.pod(t, "talker")
	expect := func(within string, args ...string) {
		t.Helper()
		out, err := s.kubectl(t, append([]string{"logs", "talker"}, args...)...)
		if err != nil || out != within {
			t.Errorf("kubectl logs %v: got %q (%v), want %q", args, out, err, within)
		}
	}
	expect("log of talker previous=false\n")
	expect("log of talker previous=true\n", "--previous")
	expect("", "--tail=0")
	for _, tc := range []struct {
		err  error
		want string
	}{
		{backend.Errorf(backend.ErrUnsupported, "the fake backend has no logs"), "the fake backend has no logs"},
		{backend.Errorf(backend.ErrInvalid, "container is waiting to start"), "container is waiting to start"},
		{backend.Errorf(backend.ErrUnavailable, "host is away"), "ServiceUnavailable"},
		{backend.Errorf(backend.ErrNotFound, "container not found here"), "NotFound"},
	} {
		s.remote.err.Store(&tc.err)
		out, err := s.kubectl(t, "logs", "talker")
		if err == nil || !strings.Contains(out, tc.want) {
			t.Errorf("%v: kubectl says %q (%v)", tc.err, out, err)
		}
		t.Logf("%s: %s", backend.Class(tc.err), strings.TrimSpace(out))
	}
	s.remote.err.Store(nil)
	t.Run("follow", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := s.cp.Command(ctx, "logs", "-f", "talker")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line := make([]byte, len("log of talker"))
		if _, err := io.ReadFull(out, line); err != nil || string(line) != "log of talker" {
			t.Errorf("got %q, %v", line, err)
		}
		cancel()
		_ = cmd.Wait() // killed
	})
}

func TestRealWrongCredentials(t *testing.T) {
	t.Parallel()
	cp := plane.Get(t)
	run := func(cfg *rest.Config, server string, tries time.Duration) error {
		client := cptest.Client(t, cfg)
		pods, err := provider.NewPodInformer(client, "real-x")
		if err != nil {
			t.Fatal(err)
		}
		r := &remote{}
		node, err := provider.New(provider.Config{
			NodeName: "real-x", Client: client, Server: server, Pods: pods, Enqueue: func(string) {},
			Engine: r, Backend: backend.Backend{Name: "fake", Node: r},
			Node: provider.NodeOptions{InternalIP: "127.0.0.1"}, StartTimeout: tries,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
		defer cancel()
		return node.Run(ctx)
	}
	expect := func(name string, err error, within ...string) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: no error", name)
			return
		}
		t.Logf("%s: %v", name, err)
		for _, w := range append(within, "--kubeconfig") {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q lacks %q", name, err, w)
			}
		}
	}
	nobody := rest.AnonymousClientConfig(cp.AdminConfig())
	nobody.BearerToken = "wrong"
	expect("wrong token", run(nobody, cp.URL(), patience), "401", cp.URL())

	other, err := cp.NodeCredential("real-y")
	if err != nil {
		t.Fatal(err)
	}
	expect("another node's credential", run(other, cp.URL(), patience), "403", "system:node:real-x")

	untrusting := rest.AnonymousClientConfig(cp.AdminConfig())
	untrusting.CAData = nil
	expect("unknown CA", run(untrusting, cp.URL(), patience), "does not trust")

	gone := cp.AdminConfig()
	gone.Host = fmt.Sprintf("https://127.0.0.1:%d", ports.Free(t))
	expect("nobody there", run(gone, gone.Host, 10*time.Second), "cannot reach the API server at "+gone.Host, "refused")
}

func TestRealClientCAOfTheCluster(t *testing.T) {
	t.Parallel()
	cp := plane.Get(t)
	cred, err := cp.NodeCredential("real-z")
	if err != nil {
		t.Fatal(err)
	}
	serve := func(cfg *rest.Config) error {
		server, err := kubeletapi.New(kubeletapi.Config{
			Options:  kubeletapi.Options{Address: "127.0.0.1:0", SelfSigned: true},
			NodeName: "real-z", Client: cptest.Client(t, cfg), Engine: &remote{},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Listen(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { // it is ended once it serves
			dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // self-signed here
			conn, err := dialer.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", server.Port()))
			if err == nil {
				conn.Close()
				cancel()
			}
		}()
		return server.Run(ctx)
	}
	if err := serve(cred); err == nil || !strings.Contains(err.Error(), kubeletapi.SettingClientCAFile) {
		t.Errorf("as a node: %v", err)
	} else {
		t.Log(err)
	}
	if err := serve(cp.AdminConfig()); err != nil {
		t.Errorf("with the right to read it: %v", err)
	}
}
