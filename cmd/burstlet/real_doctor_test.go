package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/test/kit/ports"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

// runDoctor runs the command on a configuration.
func runDoctor(t *testing.T, yaml string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "burstlet.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: burstlet.dev/v1alpha1\nkind: BurstletConfiguration\n"+
		yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := newDoctorCommand()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--config", file, "--log-level", "error"})
	err := cmd.ExecuteContext(t.Context())
	return strings.Join(strings.Fields(out.String()), " "), err
}

// rbacFile are the objects of a file in deploy/rbac.
func rbacFile(t *testing.T, name string) []runtime.Object {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "deploy", "rbac", name))
	if err != nil {
		t.Fatal(err)
	}
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var out []runtime.Object
	for doc := range strings.SplitSeq(string(data), "\n---\n") {
		object, _, err := strict.Decode([]byte(doc), nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out = append(out, object)
	}
	return out
}

// diagnosed is what doctor says of a node on the real control plane.
func (s *stage) diagnosed(yaml string) (string, error) {
	s.t.Helper()
	return runDoctor(s.t, strings.NewReplacer("%SOCKET%", "unix://"+s.socket, "%CA%", s.cp.CAFile()).Replace(yaml))
}

// says looks for words in what doctor printed.
func says(t *testing.T, out string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// A node's own credential, before the node runs and while it does. Nothing is made.
func TestRealDoctorOfANode(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const name = "examined"
	s.allowLeases(name + "-election")
	election, err := s.cp.Credential(name + "-election")
	if err != nil {
		t.Fatal(err)
	}
	port, ip := ports.Free(t), outerAddress(t)
	yaml := fmt.Sprintf(`
node: {name: %s, internalIP: %s}
kubeconfig: %s
backend: {type: sim, sim: {socket: "%%SOCKET%%"}}
kubeletAPI: {port: %d, selfSigned: true, clientCAFile: %%CA%%}
leaderElection: {enabled: true, namespace: default, kubeconfig: %s}
`, name, ip, s.nodeKubeconfig(name), port, cptest.Kubeconfig(s.t, election))
	out, err := s.diagnosed(yaml)
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	says(t, out, "ok cluster the API server answers at "+
		s.cp.URL(), "ok version the API server has v1.36", "ok clock the API server's is ",
		"ok user system:node:examined, the node's own", "ok rights system:node:examined has all ",
		"those to secrets, configmaps, serviceaccounts/token, persistentvolumeclaims, persistentvolumes, "+
			"clustertrustbundles come with pods that use them",
		"ok node there is no Node examined yet", "may write leases in namespace default; nobody has led yet",
		"ok address "+ip+", node.internalIP", "warn serving certificate self-signed",
		fmt.Sprintf("ok port :%d is free", port),
		"ok burstlet sim answers at ")
	if _, err := s.admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("doctor made a node: %v", err)
	}
	s.run(s.configure(yaml))
	s.ready(name)
	if out, err = s.diagnosed(yaml); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	says(t, out, "ok node Node examined is run by a burstlet now", "warn reached by the API server not known", " leads ",
		fmt.Sprintf("warn port :%d is in use: right if", port))
	admin := strings.Replace(yaml, s.nodeKubeconfigOf(yaml), s.cp.KubeconfigPath(), 1)
	if out, err = s.diagnosed(admin); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	says(t, out, "warn user ", "who may do everything")
	if net.ParseIP(ip).IsLoopback() {
		says(t, out, "warn reached by the API server not known: the API server does not proxy to that address")
	} else {
		says(t, out, "ok reached by the API server yes")
	}
}

// outerAddress is one of this machine's that the API server proxies to; the loopback
// one where there is none.
func outerAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	return "127.0.0.1"
}

// nodeKubeconfigOf is the file that a configuration names.
func (s *stage) nodeKubeconfigOf(yaml string) string {
	s.t.Helper()
	_, rest, _ := strings.Cut(yaml, "\nkubeconfig: ")
	file, _, _ := strings.Cut(rest, "\n")
	return file
}

// A credential for another node, one that knows nothing of burstlet, and a server that
// is not there.
func TestRealDoctorOfWrongCredentials(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	look := func(kubeconfig string) string {
		out, err := s.diagnosed(
			fmt.Sprintf(
				"node: {name: mine, internalIP: 127.0.0.1}\nkubeconfig: %s\nbackend: {type: sim, sim: {}}\n", kubeconfig,
			),
		)
		if err == nil {
			t.Errorf("doctor finds nothing wrong:\n%s", out)
		}
		return out
	}
	says(t, look(s.nodeKubeconfig("other")), "FAIL user system:node:other, the credential of another node: node.name "+
		"must be other",
		"FAIL rights system:node:other may not get, list, watch nodes: the node is not registered")
	cred, err := s.cp.Credential("stranger")
	if err != nil {
		t.Fatal(err)
	}
	says(t, look(cptest.Kubeconfig(s.t, cred)), "warn user stranger, neither the node's own nor a ServiceAccount",
		"FAIL rights stranger may not get, list, watch, create, patch nodes: the node is not registered: act as the "+
			"node: set impersonateNode and apply deploy/rbac/serviceaccount.yaml",
		"FAIL node nodes \"mine\" is forbidden")
	foreign := *cred
	foreign.TLSClientConfig = rest.TLSClientConfig{CAData: caOf(t, s)}
	foreign.BearerToken = "canary"
	out := look(cptest.Kubeconfig(s.t, &foreign))
	says(t, out, "FAIL credential kubeconfig ", "is not accepted by the API server")
	if strings.Contains(out, "canary") {
		t.Error("a token is printed")
	}
	gone := *cred
	gone.Host = fmt.Sprintf("https://127.0.0.1:%d", ports.Free(t))
	says(t, look(cptest.Kubeconfig(s.t, &gone)), "FAIL cluster "+gone.Host+": ", "connection refused: check that it runs")
	says(t, look("/absent"), "FAIL credential ")
}

// The ServiceAccount mode with the manifests of deploy/rbac, and with one right less: what
// is done as a node is constrained.
func TestRealDoctorOfAServiceAccount(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const name = "doctored"
	by := s.account(name, name, "constrained-impersonation.yaml")
	yaml := fmt.Sprintf(`
node: {name: %s, internalIP: 127.0.0.1}
kubeconfig: %s
impersonateNode: true
backend: {type: sim, sim: {}}
kubeletAPI: {address: 127.0.0.1, port: %d, serverTLSBootstrap: true, clientCAFile: %%CA%%}
certDirectory: %s
`, name, cptest.Kubeconfig(t, by), ports.Free(t), t.TempDir())
	var out string
	var err error
	wait.For(t, patience, "the rights are granted", func() error {
		out, err = s.diagnosed(yaml)
		return err
	})
	says(t, out, "ok user system:node:doctored, the node's own",
		"ok rights system:node:doctored has all ", "a token until ",
		"warn serving certificate burstlet requests one of kubernetes.io/kubelet-serving", "burstlet approve-certificates")
	if strings.Contains(out, by.BearerToken) {
		t.Error("the token is printed")
	}
	roles := s.admin.RbacV1().ClusterRoles()
	role, err := roles.Get(t.Context(), name+":node", metav1.GetOptions{})
	s.must(err)
	role.Rules = role.Rules[:1] // who it is cannot be asked any more
	_, err = roles.Update(t.Context(), role, metav1.UpdateOptions{})
	s.must(err)
	wait.For(t, patience, "the right is missed", func() error {
		if out, err = s.diagnosed(yaml); err == nil || !strings.Contains(out, "FAIL user impersonateNode: ") {
			return fmt.Errorf("%w: %s", errNotYet, out)
		}
		return nil
	})
}

func caOf(t *testing.T, s *stage) []byte {
	t.Helper()
	data, err := os.ReadFile(s.cp.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A node that asks the cluster for its credential: before it has one, and after.
func TestRealDoctorOfABootstrap(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const name = "to-be"
	dir := t.TempDir()
	yaml := fmt.Sprintf(`
node: {name: %s, internalIP: 127.0.0.1}
bootstrapKubeconfig: %s
certDirectory: %s
backend: {type: sim, sim: {socket: "%%SOCKET%%"}}
`, name, s.cp.KubeconfigPath(), dir)
	out, err := s.diagnosed(yaml)
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	says(
		t, out, "ok credential bootstrap kubeconfig ", "which asks for the node's own credential", "warn approval ",
		"warn node's rights cannot be asked for before",
	)
	p := s.run(s.configure(yaml))
	s.approve("system:node:"+name, "kubernetes.io/kube-apiserver-client-kubelet")
	s.ready(name)
	p.end()
	if out, err = s.diagnosed(yaml); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	says(
		t, out, "ok credential certificate "+dir, ", rotated", "ok user system:node:to-be, the node's own",
		"ok rights system:node:to-be has all ",
	)
}
