package provider

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/backend"
)

// away makes the remote unreachable, or reachable again.
func (b *bench) away(away bool) {
	b.remote.set(func(f *fakeRemote) {
		f.relist, f.err = time.Now, nil
		if away {
			f.relist, f.err = func() time.Time { return time.Time{} }, backend.Errorf(
				backend.ErrUnavailable, "dial host: refused",
			)
		}
	})
}

// told is what a Node says of its remote, without what other parts wrote.
func told(node *corev1.Node) map[string]any {
	labels, annotations := maps.Clone(node.Labels), map[string]string{}
	for key, value := range node.Annotations {
		if key == "ecs.burstlet.dev/cost" || key == "example.com/others" {
			annotations[key] = value
		}
	}
	return map[string]any{
		"labels": labels, "annotations": annotations, "capacity": node.Status.Capacity,
		"allocatable": node.Status.Allocatable, "info": node.Status.NodeInfo,
		"features": node.Status.Features, "declared": node.Status.DeclaredFeatures,
	}
}

// A process that starts while its remote is away leaves what the API holds of it:
// without cpu, memory and labels the Node's pods would be refused for good.
func TestNodeKeepsWhatItHadWhileTheRemoteIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newBench(t, nil)
		first.remote.facts.Annotations = map[string]string{"ecs.burstlet.dev/cost": "1"}
		first.remote.facts.SupplementalGroupsPolicy = true
		first.run(func() { first.settle(2 * time.Second) })
		before := first.inAPI().DeepCopy()
		before.Annotations["example.com/others"] = "theirs"
		if err := first.client.Tracker().Update(nodeKind, before, ""); err != nil {
			t.Fatal(err)
		}
		again := newBench(t, func(cfg *Config) { cfg.Client = first.client })
		again.client = first.client
		again.away(true)
		again.run(func() {
			for range 12 {
				again.settle(5 * time.Second)
				if diff := cmp.Diff(told(before), told(again.inAPI())); diff != "" {
					t.Fatalf("the Node while its remote is away:\n%s", diff)
				}
			}
			again.expectReady("False", "BackendUnreachable")
			if again.node.Current().Described {
				t.Error("pods would be judged by what the API held")
			}
			if err := again.client.CoreV1().Nodes().Delete(t.Context(), "n1", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			again.settle(5 * time.Second)
			delete(before.Annotations, "example.com/others")
			if diff := cmp.Diff(told(before), told(again.inAPI())); diff != "" {
				t.Errorf("the Node that was made again:\n%s", diff)
			}
			again.away(false)
			again.settle(2 * time.Second)
			again.expectReady("True", "KubeletReady")
			if _, ok := again.inAPI().Annotations["ecs.burstlet.dev/cost"]; ok {
				t.Error("an annotation that the remote no longer has stays")
			}
		})
	})
}

// Pods are judged by what the remote says now, not by what the API still holds.
func TestCurrentIsWhatTheRemoteSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.away(true)
		b.run(func() {
			b.settle(20 * time.Second)
			if now := b.node.Current(); now.Described || now.OS != "" {
				t.Errorf("before the remote answered: %+v", now)
			}
			node := b.inAPI().DeepCopy()
			node.Status.Allocatable["example.com/dongle"] = resource.MustParse("2")
			node.Labels["example.com/theirs"] = "yes"
			if err := b.client.Tracker().Update(nodeKind, node, ""); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			facts := b.remote.facts
			facts.Reserved = corev1.ResourceList{"cpu": resource.MustParse("1")}
			b.node.remote.facts = &facts // it has answered, and nothing was written yet
			now := b.node.Current()
			if !now.Described || now.Labels["kubernetes.io/os"] != "linux" || now.Labels["example.com/theirs"] != "yes" {
				t.Errorf("labels %v", now.Labels)
			}
			for name, want := range map[corev1.ResourceName]string{
				"cpu": "3", "memory": "8Gi", "pods": "110", "example.com/dongle": "2",
			} {
				if got := now.Allocatable[name]; got.String() != want {
					t.Errorf("%s: %s, want %s", name, got.String(), want)
				}
			}
		})
	})
}
