package ecs

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// configOf is the configuration of a node on a test server.
func configOf(s *stub.Server) Config {
	return Config{
		Region: "us-east-1", Cluster: "default", Subnets: []string{"subnet-a", "subnet-b"}, SecurityGroups: []string{"sg-a"},
		NodeIdentity: "cluster-uid/node.example", Settle: 2 * time.Minute,
		Endpoint: stub.Endpoint, AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "not-a-secret", HTTPClient: s.Client(),
	}
}

// open makes a backend, as a new process would.
func open(t *testing.T, cfg Config) backend.Backend {
	t.Helper()
	b, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// virtual runs f in virtual time with a server and a backend on it.
func virtual(t *testing.T, cfg stub.Config, f func(*testing.T, *stub.Server, backend.Backend)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := stub.New(cfg)
		f(t, s, open(t, configOf(s)))
	})
}

var slow = stub.Delays{Provision: 10 * time.Second, Pull: 5 * time.Second, Deprovision: 8 * time.Second}

func podOf(name string, command ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-of-" + name)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "busybox:1", Command: command}}},
	}
}

func withInit(pod *corev1.Pod, commands ...[]string) *corev1.Pod {
	for i, c := range commands {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: fmt.Sprint("init", i), Image: "busybox:1", Command: c})
	}
	return pod
}

func specOf(pod *corev1.Pod, attempt int) backend.LaunchSpec {
	spec := backend.LaunchSpec{Pod: pod, Attempt: attempt}
	for _, c := range pod.Spec.InitContainers {
		spec.Containers = append(spec.Containers, backend.ContainerSpec{Pod: pod, Container: c, Init: true, Attempt: attempt, Hash: "h-" + c.Name})
	}
	for _, c := range pod.Spec.Containers {
		spec.Containers = append(spec.Containers, backend.ContainerSpec{Pod: pod, Container: c, Attempt: attempt, Hash: "h-" + c.Name})
	}
	return spec
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", backend.Class(err), err)
	}
}

func wantClass(t *testing.T, err error, want string) {
	t.Helper()
	if got := backend.Class(err); got != want {
		t.Fatalf("error of class %q (%v), want %q", got, err, want)
	}
}

// only is the one entry of a listing.
func only(t *testing.T, facts []backend.PodFacts, err error) backend.PodFacts {
	t.Helper()
	must(t, err)
	if len(facts) != 1 {
		t.Fatalf("want one entry, have %+v", facts)
	}
	return facts[0]
}
