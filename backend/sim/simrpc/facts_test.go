package simrpc

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
)

// TestListingCutShort: a part of a listing is an error, never a shorter listing.
func TestListingCutShort(t *testing.T) {
	data, err := podList(filled[[]backend.PodFacts]()).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	for n := range data {
		var l podList
		if err := l.UnmarshalBinary(data[:n]); err == nil {
			t.Errorf("%d of %d bytes are a listing", n, len(data))
		}
	}
	var l podList
	if err := l.UnmarshalBinary(append(data, 0)); err == nil {
		t.Error("a listing and a byte are a listing")
	}
}

// FuzzListing: whatever comes, reading ends without a panic, and what can be
// read is read again from what it is written as.
func FuzzListing(f *testing.F) {
	data, err := podList(filled[[]backend.PodFacts]()).MarshalBinary()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte{})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		var l, again podList
		if l.UnmarshalBinary(data) != nil {
			return
		}
		written, err := l.MarshalBinary()
		if err == nil {
			err = again.UnmarshalBinary(written)
		}
		if diff := cmp.Diff(l, again); err != nil || diff != "" {
			t.Errorf("%v (-first +again):\n%s", err, diff)
		}
	})
}

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
