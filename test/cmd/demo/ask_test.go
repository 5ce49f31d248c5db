package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
)

// kubeconfig is a user's, with a certificate that stands beside it.
const kubeconfig = `apiVersion: v1
kind: Config
current-context: shop
contexts:
- {name: shop, context: {cluster: shop-cluster, user: anna, namespace: till}}
- {name: other, context: {cluster: other-cluster, user: anna}}
clusters:
- {name: shop-cluster, cluster: {server: "https://192.0.2.1:6443", certificate-authority: ca.crt}}
- {name: other-cluster, cluster: {server: "https://192.0.2.2:6443"}}
users:
- {name: anna, user: {token: secret-of-anna}}
`

func TestAsk(t *testing.T) {
	for answer, yes := range map[string]bool{
		"y\n": true, "Y\n": true, "yes\n": true, " yes \r\n": true, "y": true,
		"\n": false, "": false, "n\n": false, "yesterday\n": false, "\ny\n": false,
	} {
		var out strings.Builder
		d := newDemo(options{onMine: true, in: strings.NewReader(answer)}, newScreen(&out))
		if err := d.ask(t.Context()); (err == nil) != yes || err != nil && !errors.Is(err, errDeclined) {
			t.Errorf("%q: %v", answer, err)
		}
		if !strings.HasSuffix(out.String(), "Go on? [y/N] ") {
			t.Errorf("asked %q", out.String())
		}
	}
}

func TestAskEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	silent, answers := io.Pipe()
	defer answers.Close()
	d := newDemo(options{onMine: true, in: silent}, newScreen(io.Discard))
	if err := d.ask(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestMayGoOn(t *testing.T) {
	for name, tc := range map[string]struct {
		opts options
		want string
	}{
		"a terminal":     {options{terminal: true, in: strings.NewReader("y\n")}, ""},
		"a terminal, no": {options{terminal: true, in: strings.NewReader("n\n")}, "not confirmed"},
		"no terminal": {
			options{in: strings.NewReader("y\n")}, "there is no terminal to ask on; ONCE=1 or CONFIRM=yes",
		},
		"confirmed":          {options{yes: true, in: strings.NewReader("")}, ""},
		"by itself":          {options{once: true, in: strings.NewReader("")}, ""},
		"confirmed at a tty": {options{yes: true, terminal: true, in: strings.NewReader("n\n")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			expectError(t, newDemo(tc.opts, newScreen(io.Discard)).mayGoOn(t.Context()), tc.want)
		})
	}
}

func TestRefuseLeftovers(t *testing.T) {
	named := metav1.ObjectMeta{Name: "burstlet-demo"}
	for name, tc := range map[string]struct {
		there []runtime.Object
		want  string
	}{
		"nothing":   {nil, ""},
		"others":    {[]runtime.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "burstlet"}}}, ""},
		"node":      {[]runtime.Object{&corev1.Node{ObjectMeta: named}}, "Node burstlet-demo: there already"},
		"namespace": {[]runtime.Object{&corev1.Namespace{ObjectMeta: named}}, "Namespace burstlet-demo: there already"},
		"role":      {[]runtime.Object{&rbacv1.ClusterRole{ObjectMeta: named}}, "ClusterRole burstlet-demo: there already"},
		"all": {
			[]runtime.Object{&corev1.Node{ObjectMeta: named}, &corev1.Namespace{ObjectMeta: named}},
			"Node burstlet-demo, Namespace burstlet-demo: there already",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDemo(options{onMine: true}, newScreen(io.Discard))
			d.client = fake.NewClientset(tc.there...)
			expectError(t, d.refuseLeftovers(t.Context()), tc.want)
		})
	}
}

// TestMyKubeconfig checks what of the user's kubeconfig goes where: the node's has the
// cluster and no credential of the user's, and kubectl's has nothing but a context.
func TestMyKubeconfig(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	file := filepath.Join(home, "config")
	for name, text := range map[string]string{"config": kubeconfig, "ca.crt": "a CA"} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(home)
	t.Setenv("KUBECONFIG", "config")
	m, err := findMine("")
	if err != nil {
		t.Fatal(err)
	}
	if m.raw.CurrentContext != "shop" || m.access.Host != "https://192.0.2.1:6443" ||
		m.access.BearerToken != "secret-of-anna" {
		t.Errorf("found context %s, server %s", m.raw.CurrentContext, m.access.Host)
	}
	context := filepath.Join(dir, "kubeconfig")
	list, err := m.writeContext(context)
	if err != nil || list != context+":"+file {
		t.Fatalf("kubeconfigs %s, %v", list, err)
	}
	node := filepath.Join(dir, "node.kubeconfig")
	if err := m.writeNodeKubeconfig(node, "/dir/token"); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]string{
		context: {"cluster: shop-cluster", "user: anna", "namespace: burstlet-demo"},
		node:    {"server: https://192.0.2.1:6443", "certificate-authority-data: YSBDQQ==", "tokenFile: /dir/token"},
	} {
		holds(t, file, want)
	}
}

// holds wants texts in a kubeconfig of the demo, and nothing of the user's.
func holds(t *testing.T, file string, want []string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range want {
		if !strings.Contains(string(content), text) {
			t.Errorf("%s lacks %q:\n%s", file, text, content)
		}
	}
	if strings.Contains(string(content), "secret-of-anna") || strings.Contains(string(content), "192.0.2.2") {
		t.Errorf("%s holds what is not the demo's:\n%s", file, content)
	}
}

func TestNoClusterIsMine(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "config")
	t.Setenv("KUBECONFIG", empty)
	_, err := findMine("")
	expectError(t, err, "there is no current context in "+empty)
}

func TestFindAddress(t *testing.T) {
	for given, want := range map[string]struct{ address, bind, err string }{
		"127.0.0.1":    {"127.0.0.1", "127.0.0.1", ""},
		"192.0.2.1":    {"192.0.2.1", "0.0.0.0", ""}, // another's, who forwards
		"2001:db8::1":  {"2001:db8::1", "::", ""},
		"example.test": {"example.test", "", `address "example.test" is not an IP address`},
	} {
		m := &mine{}
		expectError(t, m.findAddress(t.Context(), given), want.err)
		if m.address != want.address || m.bind != want.bind {
			t.Errorf("%s: address %s, bind %s", given, m.address, m.bind)
		}
	}
}
