package simrpc

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
)

// BenchmarkList10000 lists 10,000 pods of three containers through a socket.
func BenchmarkList10000(b *testing.B) {
	const pods, containers = 10000, 3
	path := socket(b)
	remote := sim.New(sim.Config{PodUnit: true})
	launchMany(b, remote.BackendFor("node"), pods, containers)
	serveSocket(b, path, remote.BackendFor)
	back := connectSocket(b, path)
	runUntilReady(b, back)
	b.ReportAllocs()
	for b.Loop() {
		facts, err := back.Pods.List(b.Context())
		if err != nil || len(facts) != pods || len(facts[pods-1].Containers) != containers {
			b.Fatalf("%d pods, %v", len(facts), err)
		}
	}
}

// BenchmarkLaunch makes a pod through a socket.
func BenchmarkLaunch(b *testing.B) {
	path := socket(b)
	serveSocket(b, path, sim.New(sim.Config{}).BackendFor)
	back := connectSocket(b, path)
	runUntilReady(b, back)
	pod := aPod()
	for n := 0; b.Loop(); n++ {
		pod.UID = types.UID(fmt.Sprint(n))
		if err := back.Pods.Launch(b.Context(), b.Context(), backend.LaunchSpec{Pod: pod}); err != nil {
			b.Fatal(err)
		}
		if err := back.Pods.Remove(b.Context(), backend.Ref{UID: pod.UID}); err != nil {
			b.Fatal(err)
		}
	}
}

func launchMany(t testing.TB, b backend.Backend, pods, containers int) {
	for i := range pods {
		pod := aPod()
		pod.UID, pod.Name = types.UID(fmt.Sprintf("4e4f6c40-0000-4000-8000-%012d", i)), fmt.Sprintf("web-6f7d9c-%05d", i)
		spec := backend.LaunchSpec{Pod: pod}
		for j := range containers {
			c := corev1.Container{Name: fmt.Sprint("c", j), Image: "registry.example/team/app:1.2.3", Command: []string{"serve"}}
			spec.Containers = append(spec.Containers, backend.ContainerSpec{Pod: pod, Container: c, Hash: "1a2b3c4d"})
		}
		if err := b.Pods.Launch(t.Context(), t.Context(), spec); err != nil {
			t.Fatal(err)
		}
	}
}
