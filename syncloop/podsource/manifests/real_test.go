package manifests

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/burstlet/burstlet/statusmgr/mirror"
	"github.com/burstlet/burstlet/syncloop/podsource"
	"github.com/burstlet/burstlet/test/kit/background"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

var plane = cptest.Shared{Config: controlplane.Config{WithoutScheduler: true}}

func TestMain(m *testing.M) { os.Exit(plane.Main(m)) }

// fullPod has what the API server fills in most of.
const fullPod = `
apiVersion: v1
kind: Pod
metadata: {name: full, namespace: %s}
spec:
  hostNetwork: true
  priorityClassName: system-node-critical
  initContainers:
  - {name: init, image: "r.example:5000/a/b", resources: {limits: {cpu: 0.0001}}}
  - {name: sidecar, image: "x:latest", restartPolicy: Always}
  containers:
  - name: app
    image: nginx:1.2
    ports: [{containerPort: 80}, {containerPort: 53, protocol: UDP}]
    env: [{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
    resources: {limits: {cpu: 1, memory: 64Mi}, requests: {cpu: 500m}}
    livenessProbe: {httpGet: {port: 80}}
    readinessProbe: {grpc: {port: 1}, periodSeconds: 3}
    startupProbe: {exec: {command: ["true"]}}
    lifecycle: {postStart: {httpGet: {port: 80}}, preStop: {exec: {command: ["true"]}}}
    volumeMounts: [{name: empty, mountPath: /e}, {name: host, mountPath: /h, readOnly: true}]
  - {name: digest, image: "b@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
  volumes:
  - {name: empty}
  - {name: host, hostPath: {path: /var/log}}
  - {name: image, image: {reference: "r.example/data:1"}}
  - {name: latest, image: {reference: r.example/data}}
  - {name: down, downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}
  - {name: all, projected: {sources: [{downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.uid}}]}}]}}
`

// when is a wait for something to hold.
func when(holds func() bool) func() error {
	return func() error {
		if !holds() {
			return errors.New("not yet")
		}
		return nil
	}
}

// TestMirrorPodsOfANode: a node's own rights suffice for mirror pods, which come back when
// they are deleted and go with their files; and the API server would have made the same
// of a manifest.
func TestMirrorPodsOfANode(t *testing.T) {
	cp := plane.Get(t)
	admin := cptest.Client(t, cp.AdminConfig())
	const name = "static-node"
	node, err := admin.CoreV1().Nodes().Create(
		t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{},
	)
	if err != nil {
		t.Fatal(err)
	}
	cred, err := cp.NodeCredential(name)
	if err != nil {
		t.Fatal(err)
	}
	client, ns := cptest.Client(t, cred), cptest.Namespace(t, admin, "static")
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(
		func(o *metav1.ListOptions) { o.FieldSelector = "spec.nodeName=" + name }))
	pods := factory.Core().V1().Pods().Informer()
	static := podsource.NewStatic(pods.GetStore())
	problem := func(err error) { t.Errorf("problem: %v", err) }
	m := mirror.New(mirror.Config{
		Client: client.CoreV1(), Node: name, NodeUID: func() types.UID { return node.UID }, Static: static,
		InAPI: func() (list []*corev1.Pod, known bool) {
			for _, item := range pods.GetStore().List() {
				list = append(list, item.(*corev1.Pod))
			}
			return list, pods.HasSynced()
		},
		Refused: func(p *corev1.Pod) { t.Errorf("the API server calls pod %s invalid", p.Name) }, Problem: problem,
	})
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { m.Changed() }, UpdateFunc: func(_, _ any) { m.Changed() }, DeleteFunc: func(any) { m.Changed() },
	}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, "full.yaml", fmt.Sprintf(fullPod, ns))
	var mu sync.Mutex
	var wanted []*corev1.Pod
	source := New(Config{Path: dir, Node: name, Problem: problem, Changed: func(now []*corev1.Pod, _ bool) {
		mu.Lock()
		wanted = now
		mu.Unlock()
		static.Set(now)
		m.Changed()
	}})
	factory.Start(t.Context().Done())
	background.Run(t, source.Run)
	background.Run(t, m.Run)

	get := func() *corev1.Pod {
		mu.Lock()
		defer mu.Unlock()
		if len(wanted) == 0 {
			return nil
		}
		return static.Mirror(wanted[0])
	}
	wait.For(t, time.Minute, "the mirror pod", when(func() bool { return get() != nil }))
	shown, made := get(), wanted[0]
	if diff := cmp.Diff(shown.Spec, made.Spec); diff != "" {
		t.Errorf("the API server makes another pod of the manifest (-its +ours):\n%s", diff)
	}
	if shown.Status.QOSClass != made.Status.QOSClass || len(shown.OwnerReferences) != 1 ||
		shown.Annotations[AnnotationSeen] == "" {
		t.Errorf("qos %s, ours %s; %+v", shown.Status.QOSClass, made.Status.QOSClass, shown.ObjectMeta)
	}
	patch := []byte(`{"status":{"phase":"Running"}}`)
	if _, err := client.CoreV1().Pods(ns).Patch(
		t.Context(), shown.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status",
	); err != nil {
		t.Errorf("write its status: %v", err)
	}
	if err := admin.CoreV1().Pods(ns).Delete(t.Context(), shown.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wait.For(t, time.Minute, "another mirror pod", when(func() bool {
		now := get()
		return now != nil &&
			now.UID != shown.UID
	}))
	if err := os.Remove(filepath.Join(dir, "full.yaml")); err != nil {
		t.Fatal(err)
	}
	wait.For(t, time.Minute, "its end", when(func() bool { return len(pods.GetStore().List()) == 0 && get() == nil }))
}
