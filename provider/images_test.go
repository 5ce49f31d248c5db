package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// shelf is a store of images.
type shelf struct {
	backend.ImageStore // of it only List is called

	mu    sync.Mutex
	facts []backend.ImageFacts
	err   error
	lists int
}

func (s *shelf) List(context.Context) ([]backend.ImageFacts, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	slices.Reverse(s.facts) // a runtime promises no order
	return slices.Clone(s.facts), s.err
}

func (s *shelf) set(change func(*shelf)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// TestStatusImages: nodestatus/setters.go Images.
func TestStatusImages(t *testing.T) {
	facts := []backend.ImageFacts{
		{ID: "b", Names: []string{"small:1"}, Size: 1},
		{ID: "c", Names: []string{"x:2", "x@sha256:2", "x:1", "x@sha256:1", "x:4", "x:3"}, Size: 9},
		{ID: "a", Names: []string{"same:1"}, Size: 1},
	}
	large := corev1.ContainerImage{Names: []string{"x@sha256:1", "x@sha256:2", "x:1", "x:2", "x:3"}, SizeBytes: 9}
	first, second := corev1.ContainerImage{Names: []string{"same:1"}, SizeBytes: 1}, corev1.ContainerImage{
		Names: []string{"small:1"}, SizeBytes: 1,
	}
	for most, want := range map[int][]corev1.ContainerImage{
		-1: {large, first, second}, 50: {large, first, second}, 2: {large, first}, 0: {},
	} {
		if diff := cmp.Diff(want, statusImages(facts, most)); diff != "" {
			t.Errorf("at most %d (-want +got):\n%s", most, diff)
		}
	}
}

// TestImagesInTheNodesStatus: they are there from the first write on, follow changes,
// and cost no write while nothing changes.
func TestImagesInTheNodesStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shelf{facts: []backend.ImageFacts{
			{ID: "a", Names: []string{"a:1"}, Size: 1}, {ID: "b", Names: []string{"b:1"}, Size: 1},
		}}
		b := newBench(t, func(c *Config) { c.Backend.Store = store })
		names := func() (names []string) {
			for _, i := range b.inAPI().Status.Images {
				names = append(names, i.Names...)
			}
			return names
		}
		b.run(func() {
			b.settle(time.Second)
			if got := names(); !slices.Equal(got, []string{"a:1", "b:1"}) {
				t.Errorf("images %q", got)
			}
			b.settle(10 * time.Second)
			before := len(writes(b.client, "nodes"))
			b.settle(4 * time.Minute)
			if n := len(writes(b.client, "nodes")) - before; n > 0 {
				t.Errorf("%d writes though nothing changed", n)
			}
			if store.lists < 6 || store.lists > 9 {
				t.Errorf("listed %d times in four minutes, want every 30s", store.lists)
			}
			store.set(func(s *shelf) { s.err = fmt.Errorf("broken") })
			b.settle(time.Minute)
			if got := names(); len(got) != 2 {
				t.Errorf("a listing that failed: images %q", got)
			}
			store.set(func(s *shelf) { s.facts, s.err = s.facts[:1], nil })
			b.settle(time.Minute)
			if got := names(); len(got) != 1 {
				t.Errorf("after a removal: images %q", got)
			}
		})
	})
}

// TestUnknownImagesStay: what an earlier life of the process wrote is not taken back
// while the remote does not say what there is.
func TestUnknownImagesStay(t *testing.T) {
	have := corev1.NodeStatus{Images: []corev1.ContainerImage{{Names: []string{"a"}, SizeBytes: 1}}}
	unknown := spec.build(observation{now: noon, facts: goodFacts()}, have, corev1.NodeStatus{})
	if diff := cmp.Diff(have.Images, unknown.Status.Images); diff != "" {
		t.Error(diff)
	}
	none := spec.build(
		observation{now: noon, facts: goodFacts(), images: []corev1.ContainerImage{}}, have, corev1.NodeStatus{},
	)
	if len(none.Status.Images) > 0 {
		t.Errorf("there are none, and the status has %v", none.Status.Images)
	}
	if settled(none, &corev1.Node{ObjectMeta: none.ObjectMeta, Status: unknown.Status}) {
		t.Error("images that are gone are not written")
	}
}

// TestRebooted: a host that booted again is told of once, whether this process saw it
// or finds it so.
func TestRebooted(t *testing.T) {
	node := func(boot string) *corev1.Node {
		n := &corev1.Node{}
		n.Name, n.Status.NodeInfo.BootID = "n1", boot
		return n
	}
	for name, tt := range map[string]struct {
		inAPI string
		boots []string
		want  []string
	}{
		"a new node":    {boots: []string{"1", "1"}},
		"the same boot": {inAPI: "1", boots: []string{"", "1", "1"}},
		"rebooted while nobody looked": {
			inAPI: "1", boots: []string{"2", "2"}, want: []string{"Rebooted: Node n1 has been rebooted, boot id: 2"},
		},
		"rebooted, and not known for a while": {
			boots: []string{"1", "", "2"}, want: []string{"Rebooted: Node n1 has been rebooted, boot id: 2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var said []string
			h := &eventReporter{bootID: tt.inAPI, closing: func() bool { return false }, event: func(
				ref *corev1.ObjectReference, kind, reason, message string,
			) {
				if reason == "Rebooted" {
					said = append(said, reason+": "+message)
					if kind != corev1.EventTypeWarning || *ref != *NodeReference("n1") {
						t.Errorf("a %s about %+v", kind, ref)
					}
				}
			}}
			for _, boot := range tt.boots {
				h.report(node(boot), node("2")) // what was just written is there
			}
			if !slices.Equal(said, tt.want) {
				t.Errorf("told %q, want %q", said, tt.want)
			}
		})
	}
}

// TestNodeInfoTellsMachinesApart: machineID, systemUUID and bootID are the remote's.
func TestNodeInfoTellsMachinesApart(t *testing.T) {
	facts := goodFacts()
	facts.MachineID, facts.SystemUUID, facts.BootID = "m", "s", "b"
	node := spec.build(observation{now: noon, facts: facts}, corev1.NodeStatus{}, corev1.NodeStatus{})
	if i := node.Status.NodeInfo; i.MachineID != "m" || i.SystemUUID != "s" || i.BootID != "b" {
		t.Errorf("node info %+v", i)
	}
	have := node.DeepCopy()
	have.Status.NodeInfo.BootID = "before"
	if settled(node, have) {
		t.Error("another boot is not written")
	}
}

// All images of a large host do not fit: the framework keeps the status as an annotation
// too, and all annotations of an object have 256 KiB (apimachinery,
// TotalAnnotationSizeLimitB).
func TestStatusImagesFitIntoAnAnnotation(t *testing.T) {
	facts := make([]backend.ImageFacts, 5000)
	for i := range facts {
		facts[i] = backend.ImageFacts{
			ID: strconv.Itoa(i), Size: uint64(len(facts) - i),
			Names: []string{
				"registry.example.org/" + strings.Repeat("a", 150) + strconv.Itoa(i) + "@sha256:" + strings.Repeat("0", 64),
			},
		}
	}
	images := statusImages(facts, -1)
	data, err := json.Marshal(images)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 128<<10 || len(data) < 100<<10 {
		t.Errorf("%d images of %d bytes", len(images), len(data))
	}
	if images[0].SizeBytes != 5000 || images[len(images)-1].SizeBytes != int64(5001-len(images)) {
		t.Error("they are not the largest")
	}
}
