package differential

import (
	"fmt"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/burstlet/burstlet/test/kit/launch"
	"github.com/burstlet/burstlet/test/kit/logs"
	"github.com/burstlet/burstlet/test/kit/ports"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
	"github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/kubelet"
	"github.com/burstlet/burstlet/test/parts/registry"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

const (
	// theirs and ours are the names of the nodes, and of the namespaces of their pods.
	theirs, ours = "their-node", "our-node"
	// patience bounds each wait, on a machine that builds other packages meanwhile.
	patience = 4 * time.Minute
	// password opens the private part of the registry.
	password = "open sesame"
	// logTail is how much of a program's log a failed test shows, in bytes.
	logTail = 20_000
)

// sides are both nodes.
var sides = []string{theirs, ours}

// world is the cluster with both nodes.
type world struct {
	client kubernetes.Interface
	seen   *record
}

func newWorld(t *testing.T) *world {
	t.Helper()
	plane := cptest.New(t, controlplane.Config{BindAddress: "0.0.0.0"}) // the kubelet reaches it from its host
	w := &world{client: cptest.Client(t, plane.AdminConfig())}
	log := &logs.Buffer{Keep: logTail}
	log.ShowAtFailure(t, "the kubelet")
	kubelet.ForTest(t, plane, newHost(t), kubelet.Config{Node: theirs, Verbosity: 2, Log: log})
	startBurstlet(t, plane, newHost(t))
	for _, node := range sides {
		wait.Node(t, w.client, node, patience, "Ready", wait.NodeReady)
		w.prepare(t, cptest.Namespace(t, w.client, node))
	}
	w.seen = watch(t, w.client)
	return w
}

// Both hosts can pull pulledImage. It is not busybox under another name: of an image that
// a kubelet has pulled under one name, it pulls any other name before a pod may use it.
const (
	registryName = "pulled.burstlet.test"
	pulledImage  = registryName + "/app:1"
	// privateImage wants the login of the Secret of that name.
	privateImage = registryName + "/private/app:1"
)

func newHost(t *testing.T) *remotehost.Host {
	t.Helper()
	host := remotehost.ForTest(t)
	served := registry.New(registry.Private{Prefix: "private/", User: "puller", Password: password})
	for ref, is := range map[string]string{pulledImage: "pulled", privateImage: "private"} {
		app, err := images.Derive(v1.Config{Cmd: []string{"sh"}, Labels: map[string]string{"is": is}})
		if err == nil {
			err = served.Push(app, ref)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := host.ServeRegistry(t.Context(), registryName, served); err != nil {
		t.Fatal(err)
	}
	return host
}

func startBurstlet(t *testing.T, plane *controlplane.ControlPlane, host *remotehost.Host) {
	t.Helper()
	launch.ForTest(t, launch.Config{Name: ours, File: launch.File(t, fmt.Sprintf(`apiVersion: burstlet.dev/v1alpha1
kind: BurstletConfiguration
kubeconfig: %s
node: {name: %s, taints: [], internalIP: 127.0.0.1}
kubeletAPI: {address: 127.0.0.1, port: %d, selfSigned: true, clientCAFile: %s}
clusterDNS: [10.96.0.10]
logging: {level: debug}
eviction: {evictionHard: {}} # the machine may be fuller than a kubelet takes
backend: {type: cri, cri: {endpoint: %q, ssh: {keyFiles: [%q], knownHostsFile: %q}}}
`, cptest.NodeKubeconfig(t, plane, ours), ours, ports.Free(t), plane.CAFile(), host.Endpoint(), host.KeyFile(), host.KnownHostsFile()))})
}

// prepare makes what pods refer to.
func (w *world) prepare(t *testing.T, namespace string) {
	t.Helper()
	_, err := w.client.CoreV1().ConfigMaps(namespace).Create(t.Context(),
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "there"}, Data: map[string]string{"key": "value"},
		}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []*corev1.Secret{
		{ObjectMeta: metav1.ObjectMeta{Name: "there"}, StringData: map[string]string{"key": "value"}},
		{
			ObjectMeta: metav1.ObjectMeta{Name: "login"}, Type: corev1.SecretTypeDockerConfigJson,
			StringData: map[string]string{corev1.DockerConfigJsonKey: fmt.Sprintf(
				`{"auths":{%q:{"username":"puller","password":%q}}}`, registryName, password,
			)},
		},
	} {
		if _, err := w.client.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
