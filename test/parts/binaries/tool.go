package binaries

import (
	"embed"
	"fmt"
	"strings"
	"time"
)

// pins holds the module files, and the source of programs that are put together
// here; see doc.go.
//
//go:embed *.mod *.sum *.go.txt
var pins embed.FS

// Tool is a program that can be built; its value is the file name.
type Tool string

// The programs of a control plane, the client for people, those of a node, what
// answers kubectl top, and what installs charts.
const (
	Etcd                  Tool = "etcd"
	KubeAPIServer         Tool = "kube-apiserver"
	KubeControllerManager Tool = "kube-controller-manager"
	KubeScheduler         Tool = "kube-scheduler"
	Kubectl               Tool = "kubectl"
	Kubelet               Tool = "kubelet"
	KubeProxy             Tool = "kube-proxy"
	CoreDNS               Tool = "coredns"
	MetricsServer         Tool = "metrics-server"
	Helm                  Tool = "helm"
)

// The API servers of other versions of Kubernetes, for clusters that are older or newer.
const (
	KubeAPIServer134 Tool = "kube-apiserver-1.34"
	KubeAPIServer135 Tool = "kube-apiserver-1.35"
	KubeAPIServer137 Tool = "kube-apiserver-1.37"
)

// The runtime of hosts, in the two versions that are built: 1.7 and 2.
const (
	Containerd17     Tool = "containerd17"
	Containerd17Shim Tool = "containerd17-shim-runc-v2"
	Containerd17Ctr  Tool = "containerd17-ctr"
	Containerd2      Tool = "containerd2"
	Containerd2Shim  Tool = "containerd2-shim-runc-v2"
	Containerd2Ctr   Tool = "containerd2-ctr"
)

// What the suite of the Kubernetes project that holds nodes to its conformance
// needs: the suite itself, the command that runs it in parallel, and programs that
// its images hold.
const (
	E2E         Tool = "e2e.test"
	Ginkgo      Tool = "ginkgo"
	Agnhost     Tool = "agnhost"
	NoNewPrivs  Tool = "nonewprivs"
	testImages       = kubernetesModule + "/test/images/"
	ginkgoPkg        = "github.com/onsi/ginkgo/v2/ginkgo"
	e2eSuitePkg      = kubernetesModule + "/test/e2e"
)

// Module paths that are pinned.
const (
	kubernetesModule    = "k8s.io/kubernetes"
	etcdModule          = "go.etcd.io/etcd/server/v3"
	metricsServerModule = "sigs.k8s.io/metrics-server"
	helmModule          = "helm.sh/helm/v4"
	coreDNSModule       = "github.com/coredns/coredns"
	containerd17Module  = "github.com/containerd/containerd"
	containerd2Module   = "github.com/containerd/containerd/v2"
)

// All returns every tool, in the order in which they are built.
func All() []Tool {
	return []Tool{
		Etcd, KubeAPIServer, KubeControllerManager, KubeScheduler, Kubectl, Kubelet, KubeProxy, CoreDNS, MetricsServer, Helm,
		E2E, Ginkgo, Agnhost, NoNewPrivs,
		Containerd17, Containerd17Shim, Containerd17Ctr, Containerd2, Containerd2Shim, Containerd2Ctr,
		KubeAPIServer134, KubeAPIServer135, KubeAPIServer137,
	}
}

// Version returns the version of the module that t is built from, such as
// v1.36.3.
func (t Tool) Version() (string, error) {
	s, err := t.source()
	if err != nil {
		return "", err
	}
	return s.version, nil
}

// source is all that a build needs to know.
type source struct {
	pkg, module, version string
	mod, sum             []byte
	ldflags              string
	// test says that the package's tests are built.
	test bool
	// main is the source of a program that is put together here, whose package is
	// that of the module files; nil for all others.
	main []byte
}

// pinName is the base name of the module files t is built from.
func (t Tool) pinName() string {
	if minor := t.otherKubernetes(); minor != "" {
		return "kubernetes-" + minor
	}
	switch t.module() {
	case kubernetesModule, coreDNSModule, metricsServerModule, helmModule:
		return "kubernetes"
	case containerd17Module:
		return string(Containerd17)
	case containerd2Module:
		return string(Containerd2)
	}
	return string(t)
}

// otherKubernetes is the minor version of an API server of another version, such as
// 1.34; "" for all other programs.
func (t Tool) otherKubernetes() string {
	minor, found := strings.CutPrefix(string(t), string(KubeAPIServer)+"-")
	if !found {
		return ""
	}
	return minor
}

func (t Tool) module() string {
	modules := map[Tool]string{
		Etcd: etcdModule, MetricsServer: metricsServerModule, Helm: helmModule, CoreDNS: coreDNSModule,
		Containerd17: containerd17Module, Containerd17Shim: containerd17Module, Containerd17Ctr: containerd17Module,
		Containerd2: containerd2Module, Containerd2Shim: containerd2Module, Containerd2Ctr: containerd2Module,
	}
	if module, ok := modules[t]; ok {
		return module
	}
	return kubernetesModule
}

func (t Tool) pkg() string {
	packages := map[Tool]string{
		Etcd: etcdModule, E2E: e2eSuitePkg,
		Ginkgo:  ginkgoPkg, // at the version that Kubernetes requires
		Agnhost: testImages + string(Agnhost), NoNewPrivs: testImages + string(NoNewPrivs),
		CoreDNS: ownPackage,
	}
	if pkg, ok := packages[t]; ok {
		return pkg
	}
	name := string(t)
	if t.otherKubernetes() != "" {
		name = string(KubeAPIServer)
	}
	if t.isContainerd() { // two versions have programs of the same names
		name = "containerd" + strings.TrimPrefix(name, t.pinName())
		if t == Containerd17Ctr || t == Containerd2Ctr {
			name = "ctr"
		}
	}
	return t.module() + "/cmd/" + name
}

// Containerd17Tools are the programs of containerd 1.7.
func Containerd17Tools() []Tool { return []Tool{Containerd17, Containerd17Shim, Containerd17Ctr} }

// Containerd2Tools are the programs of containerd 2.
func Containerd2Tools() []Tool { return []Tool{Containerd2, Containerd2Shim, Containerd2Ctr} }

// OtherKubernetes are the API servers of other versions, by their minor versions.
func OtherKubernetes() map[string]Tool {
	others := map[string]Tool{}
	for _, t := range All() {
		if minor := t.otherKubernetes(); minor != "" {
			others[minor] = t
		}
	}
	return others
}

func (t Tool) isContainerd() bool {
	return t.module() == containerd17Module || t.module() == containerd2Module
}

// ownPackage is that of mainSource.
const ownPackage = "."

// mainSource is the source of a program that is put together here; nil for all
// others. CoreDNS's own program has every plugin and with them the libraries of
// three clouds.
func (t Tool) mainSource() ([]byte, error) {
	if t != CoreDNS {
		return nil, nil
	}
	return pins.ReadFile(string(t) + ".go.txt")
}

// isTest says that the package is one of tests, and its program the binary of
// them.
func (t Tool) isTest() bool { return t == E2E }

// fileName is the program's in the cache, whose directory tells the versions of
// Kubernetes and etcd but of nothing else.
func (t Tool) fileName() (string, error) {
	if t == Etcd || t.module() == kubernetesModule && t.otherKubernetes() == "" {
		return string(t), nil
	}
	version, err := t.Version()
	return string(t) + "-" + version, err
}

func (t Tool) source() (source, error) {
	mod, err := pins.ReadFile(t.pinName() + ".mod")
	if err != nil {
		return source{}, fmt.Errorf("read pin of %s: %w", t, err)
	}
	sum, err := pins.ReadFile(t.pinName() + ".sum")
	if err != nil {
		return source{}, fmt.Errorf("read pin of %s: %w", t, err)
	}
	main, err := t.mainSource()
	if err != nil {
		return source{}, fmt.Errorf("read source of %s: %w", t, err)
	}
	version, err := requiredVersion(mod, t.module())
	if err != nil {
		return source{}, fmt.Errorf("read pin of %s: %w", t, err)
	}
	s := source{
		pkg: t.pkg(), module: t.module(), version: version, mod: mod, sum: sum, ldflags: "-s -w", test: t.isTest(),
		main: main,
	}
	if s.module == kubernetesModule {
		s.ldflags += kubernetesVersionFlags(version, time.Now())
	}
	if t == Helm { // it reports no patch version without
		s.ldflags += " -X " + helmModule + "/internal/version.version=" + version
	}
	if t.isContainerd() {
		s.ldflags += " -X " + s.module + "/version.Version=" + version
	}
	return s, nil
}

// requiredVersion finds the version of a module in a go.mod file: the word
// after the module's path where it is required.
func requiredVersion(mod []byte, module string) (string, error) {
	for line := range strings.Lines(string(mod)) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 && fields[0] == module && strings.HasPrefix(fields[1], "v") {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("module %s is not required", module)
}

// kubernetesVersionFlags are the linker flags of a Kubernetes release build;
// without them a program reports no version. A module carries no commit.
func kubernetesVersionFlags(version string, built time.Time) string {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	values := []string{
		"gitVersion=" + version,
		"gitMajor=" + major,
		"gitMinor=" + minor,
		"gitCommit=unknown",
		"gitTreeState=archive",
		"buildDate=" + built.UTC().Format(time.RFC3339),
	}
	var b strings.Builder
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, v := range values {
			b.WriteString(" -X " + pkg + "." + v)
		}
	}
	return b.String()
}
