package provider

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/provider/kubeletapi"
)

var nodeKind = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}

// bench is a Node that runs in virtual time against a fake API server. The
// bubble fails when a goroutine is left after Run.
type bench struct {
	t        *testing.T
	client   *fake.Clientset
	remote   *fakeRemote
	enqueued enqueued
	synced   chan struct{}
	node     *Node
}

func newBench(t *testing.T, change func(*Config)) *bench {
	b := &bench{t: t, client: fake.NewClientset(), remote: newRemote(), synced: make(chan struct{})}
	b.client.PrependReactor("create", "nodes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		node := a.(clienttesting.CreateAction).GetObject().(*corev1.Node)
		node.UID = types.UID("uid-" + time.Now().Format(time.RFC3339Nano)) // as an API server does
		return false, nil, nil
	})
	pods, err := NewPodInformer(b.client, "n1")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		NodeName: "n1", Client: b.client, Server: "https://api.test:6443", Pods: pods,
		Enqueue: b.enqueued.enqueue, Synced: func() { close(b.synced) },
		Engine: b.remote, Backend: backend.Backend{Name: "sim", Node: b.remote},
		Node:       NodeOptions{InternalIP: "10.0.0.9"},
		Registerer: prometheus.NewRegistry(),
	}
	if change != nil {
		change(&cfg)
	}
	if b.node, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	return b
}

// run runs the node for the time of a test, and checks how it ends.
func (b *bench) run(test func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := b.node.Run(ctx); err != nil {
			b.t.Errorf("Run: %v", err)
		}
	})
	test()
	start := time.Now()
	cancel()
	wg.Wait()
	if took := time.Since(start); took > time.Second {
		b.t.Errorf("Run took %v to end", took)
	}
}

func (b *bench) settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *bench) inAPI() *corev1.Node {
	b.t.Helper()
	obj, err := b.client.Tracker().Get(nodeKind, "", "n1")
	if err != nil {
		b.t.Fatal(err)
	}
	return obj.(*corev1.Node)
}

func (b *bench) lease() *coordinationv1.Lease {
	b.t.Helper()
	obj, err := b.client.Tracker().Get(coordinationv1.SchemeGroupVersion.WithResource("leases"), "kube-node-lease", "n1")
	if err != nil {
		b.t.Fatal(err)
	}
	return obj.(*coordinationv1.Lease)
}

func (b *bench) expectReady(status corev1.ConditionStatus, reason string) {
	b.t.Helper()
	c := condition(b.inAPI().Status.Conditions, corev1.NodeReady)
	if c == nil || c.Status != status || c.Reason != reason {
		b.t.Errorf("Ready is %+v, want %s %s", c, status, reason)
	}
}

func TestNodeRegistersAndKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		if err := b.client.Tracker().Add(newPod("a", "1")); err != nil {
			t.Fatal(err)
		}
		b.run(func() {
			b.settle(2 * time.Second)
			<-b.synced
			node := b.inAPI()
			if len(node.Spec.Taints) != 1 || node.Spec.Taints[0] != DefaultTaint() {
				t.Errorf("taints %v", node.Spec.Taints)
			}
			if node.Status.DaemonEndpoints.KubeletEndpoint.Port != 0 {
				t.Error("a port is published although the API is not served")
			}
			b.expectReady("True", "KubeletReady")
			lease := b.lease()
			if *lease.Spec.LeaseDurationSeconds != 40 || lease.OwnerReferences[0].UID != node.UID {
				t.Errorf("lease %+v", lease)
			}
			b.settle(11 * time.Second)
			if again := b.lease(); !again.Spec.RenewTime.After(lease.Spec.RenewTime.Time) {
				t.Error("the lease was not renewed")
			}
			if b.enqueued.count("ns/a") == 0 {
				t.Error("no hint for the pod")
			}
			patches := len(writes(b.client, "nodes"))
			b.settle(4 * time.Minute)
			if n := len(writes(b.client, "nodes")); n != patches {
				t.Errorf("%d writes of a Node that does not change: %v", n-patches, writes(b.client, "nodes"))
			}
			b.settle(2 * time.Minute)
			if n := len(writes(b.client, "nodes")); n != patches+1 {
				t.Errorf("%d heartbeats in six minutes, want 1", n-patches)
			}
		})
		// Nothing is taken back at the end.
		b.expectReady("True", "KubeletReady")
	})
}

func TestUnreachableRemoteMakesTheNodeNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.run(func() {
			b.settle(5 * time.Second)
			lost := time.Now()
			b.remote.set(func(f *fakeRemote) {
				f.relist = func() time.Time { return lost }
				f.err = backend.Errorf(backend.ErrUnavailable, "dial host: refused")
			})
			b.settle(39 * time.Second)
			b.expectReady("True", "KubeletReady")
			b.settle(3 * time.Second)
			b.expectReady("False", "BackendUnreachable")
			before := b.lease().Spec.RenewTime
			b.settle(30 * time.Second)
			if !b.lease().Spec.RenewTime.After(before.Time) {
				t.Error("the lease is not kept")
			}
			b.remote.set(func(f *fakeRemote) { f.relist, f.err = time.Now, nil })
			b.settle(2 * time.Second)
			b.expectReady("True", "KubeletReady")
		})
	})
}

func TestRemoteThatNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.remote.err = backend.Errorf(backend.ErrUnavailable, "dial host: refused")
		b.remote.relist = func() time.Time { return time.Time{} }
		b.run(func() {
			b.settle(5 * time.Second)
			b.expectReady("False", "KubeletNotReady")
			b.lease()
			b.settle(40 * time.Second)
			b.expectReady("False", "BackendUnreachable")
			b.remote.set(func(f *fakeRemote) { f.relist, f.err = time.Now, nil })
			b.settle(3 * time.Second)
			b.expectReady("True", "KubeletReady")
			if got := b.inAPI().Labels["kubernetes.io/os"]; got != "linux" {
				t.Errorf("os label %q", got)
			}
		})
	})
}

// A Node that is Ready stands as it is while a process that takes it over has not
// reached the remote: NotReady would take its pods out of their Services.
func TestReadyNodeStandsUntilTheRemoteAnswers(t *testing.T) {
	refused := backend.Errorf(backend.ErrUnavailable, "dial host: refused")
	denied := backend.Errorf(backend.ErrDenied, "no such key")
	for name, tt := range map[string]struct {
		err    error
		stands time.Duration // it is as it was then
		well   bool          // the remote answers from then on
		then   time.Duration
		after  string
	}{
		"it answers at once": {then: time.Second, after: "KubeletReady"},
		"it answers late": {
			err: refused, stands: 10 * time.Second, well: true, then: 11 * time.Second, after: "KubeletReady",
		},
		"it never answers": {err: refused, stands: 14 * time.Second, then: 17 * time.Second, after: "KubeletNotReady"},
		"it refuses us":    {err: denied, stands: 2 * time.Second, then: 5 * time.Second, after: "BackendDenied"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, nil)
				standing := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
					Name: "n1", UID: "1", Labels: map[string]string{virtualLabel: virtualLabelValue},
				}}
				standing.Status.Conditions = []corev1.NodeCondition{{
					Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "AsItWas",
				}}
				if err := b.client.Tracker().Add(standing); err != nil {
					t.Fatal(err)
				}
				b.remote.err = tt.err
				b.run(func() {
					if b.settle(tt.stands); tt.stands > 0 {
						b.expectReady("True", "AsItWas")
					}
					if tt.well {
						b.remote.set(func(f *fakeRemote) { f.err = nil })
					}
					b.settle(tt.then - tt.stands)
					if c := condition(b.inAPI().Status.Conditions, corev1.NodeReady); c == nil || c.Reason != tt.after {
						t.Errorf("Ready is %+v, want %s", c, tt.after)
					}
				})
			})
		})
	}
}

// A node whose remote described itself a moment ago is registered with that, at once.
func TestNodeThatWasDescribedRegistersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.remote.err = backend.Errorf(backend.ErrUnavailable, "the reply takes its time")
		b.node.Described(b.remote.facts)
		b.run(func() {
			b.settle(100 * time.Millisecond)
			b.expectReady("True", "KubeletReady")
			if got := capacityOf(t, b.inAPI(), "cpu"); got != b.remote.facts.Capacity.Cpu().String() {
				t.Errorf("cpu %s", got)
			}
		})
	})
}

func TestDeletedNodeIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.run(func() {
			b.settle(15 * time.Second)
			old := b.inAPI().UID
			if err := b.client.Tracker().Delete(nodeKind, "", "n1"); err != nil {
				t.Fatal(err)
			}
			// The garbage collector takes the lease with it.
			if err := b.client.Tracker().Delete(
				coordinationv1.SchemeGroupVersion.WithResource("leases"), "kube-node-lease", "n1",
			); err != nil {
				t.Fatal(err)
			}
			b.settle(3 * time.Second)
			node := b.inAPI()
			if node.UID == old || len(node.Spec.Taints) != 1 || node.Labels[virtualLabel] == "" {
				t.Errorf("made again as %+v", node)
			}
			b.expectReady("True", "KubeletReady")
			b.settle(11 * time.Second)
			if got := b.lease().OwnerReferences[0].UID; got != node.UID {
				t.Errorf("the lease belongs to %s, not to %s", got, node.UID)
			}
		})
	})
}

// Who drains a node and deletes it does not want pods on it.
func TestDeletedNodeComesBackCordoned(t *testing.T) {
	for _, cordoned := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, nil)
			b.run(func() {
				b.settle(15 * time.Second)
				for _, now := range []bool{true, cordoned} {
					node := b.inAPI().DeepCopy()
					node.Spec.Unschedulable = now
					if err := b.client.Tracker().Update(nodeKind, node, ""); err != nil {
						t.Fatal(err)
					}
					b.settle(time.Second)
				}
				if err := b.client.Tracker().Delete(nodeKind, "", "n1"); err != nil {
					t.Fatal(err)
				}
				b.settle(3 * time.Second)
				if got := b.inAPI().Spec.Unschedulable; got != cordoned {
					t.Errorf("cordoned: %v, was %v", got, cordoned)
				}
			})
		})
	}
}

// The framework makes a Node that goes between its registration and its first status
// by itself, of what it was given, which has no taints.
func TestNodeDeletedAsItRegistersIsMadeWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const label = "node-restriction.kubernetes.io/team" // a node may not set it by a patch
		b := newBench(t, func(cfg *Config) { cfg.Node.Labels = map[string]string{label: "blue"} })
		deleted := false
		b.client.PrependReactor("*", "nodes", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if a.GetVerb() == "create" || deleted {
				return false, nil, nil
			}
			deleted = b.client.Tracker().Delete(nodeKind, "", "n1") == nil // once it is there
			return false, nil, nil
		})
		b.run(func() {
			b.settle(15 * time.Second)
			node := b.inAPI()
			if !deleted || len(node.Spec.Taints) != 1 || node.Labels[label] != "blue" {
				t.Errorf("deleted %t, made again with taints %v and labels %v", deleted, node.Spec.Taints, node.Labels)
			}
			b.expectReady("True", "KubeletReady")
			if got := b.lease().OwnerReferences; len(got) != 1 || got[0].UID != node.UID {
				t.Errorf("the lease belongs to %v, not to %s", got, node.UID)
			}
		})
	})
}

// Trap C4: the framework never changes the owner of a lease that it knows. Here the
// garbage collector does not come.
func TestLeaseFollowsANodeThatIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.run(func() {
			b.settle(15 * time.Second)
			old := b.inAPI().UID
			if err := b.client.Tracker().Delete(nodeKind, "", "n1"); err != nil {
				t.Fatal(err)
			}
			b.settle(3 * time.Second)
			if got := b.lease().OwnerReferences; len(got) != 1 || got[0].UID == old || got[0].UID != b.inAPI().UID {
				t.Errorf("the lease belongs to %v, the node is %s and was %s", got, b.inAPI().UID, old)
			}
			renewed := b.lease().Spec.RenewTime
			b.settle(11 * time.Second)
			if lease := b.lease(); !lease.Spec.RenewTime.After(renewed.Time) || lease.OwnerReferences[0].UID != b.inAPI().UID {
				t.Errorf("lease %+v", lease)
			}
		})
	})
}

// As a kubelet whose host goes down: not ready at once, in its words.
func TestShutDownMakesTheNodeNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.run(func() {
			b.settle(5 * time.Second)
			b.expectReady("True", "KubeletReady")
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			b.node.ShutDown(ctx)
			if ctx.Err() != nil {
				t.Error("it waited for the context")
			}
			b.expectReady("False", "KubeletNotReady")
			if c := condition(b.inAPI().Status.Conditions, corev1.NodeReady); c.Message != "node is shutting down" {
				t.Errorf("message %q", c.Message)
			}
		})
	})
}

func TestConditionTurnedBySomeoneElseIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.run(func() {
			b.settle(15 * time.Second)
			node := b.inAPI().DeepCopy()
			for i := range node.Status.Conditions {
				node.Status.Conditions[i].Status = corev1.ConditionUnknown
				node.Status.Conditions[i].LastTransitionTime = metav1.Now()
			}
			if err := b.client.Tracker().Update(nodeKind, node, ""); err != nil {
				t.Fatal(err)
			}
			b.settle(2 * time.Second)
			b.expectReady("True", "KubeletReady")
		})
	})
}

// An outage of the API server is ridden out, and does not delay the end.
func TestOutageOfTheAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		var mu sync.Mutex
		down := false
		b.client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			if down {
				return true, nil, errors.New("connection refused")
			}
			return false, nil, nil
		})
		set := func(v bool) { mu.Lock(); down = v; mu.Unlock() }
		b.run(func() {
			b.settle(5 * time.Second)
			set(true)
			lost := time.Now()
			b.remote.set(func(f *fakeRemote) { f.relist = func() time.Time { return lost } })
			b.settle(5 * time.Minute)
			set(false)
			b.settle(13 * time.Second)
			b.expectReady("False", "BackendUnreachable")
			if age := time.Since(b.lease().Spec.RenewTime.Time); age > 13*time.Second {
				t.Errorf("the lease is %v old", age)
			}
			set(true)
			b.settle(time.Minute)
		})
	})
}

func TestStartErrors(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	pods := schema.GroupResource{Resource: "pods"}
	for _, tc := range []struct {
		name           string
		verb, resource string
		err            error
		want           []string
		within         time.Duration
	}{
		{
			"unreachable", "*", "*", &net.OpError{Op: "dial", Err: errors.New("connection refused")},
			[]string{"cannot reach the API server at https://api.test:6443", "connection refused", "--kubeconfig"},
			25 * time.Second,
		},
		{
			"credential not accepted", "*", "*", apierrors.NewUnauthorized("Unauthorized"),
			[]string{"401", "https://api.test:6443", "--kubeconfig"},
			4 * time.Second,
		},
		{
			"credential of no node", "create", "nodes", apierrors.NewForbidden(nodes, "n1", errors.New("no")),
			[]string{"403", "system:node:n1", "--kubeconfig"},
			4 * time.Second,
		},
		{
			"may not write the status", "patch", "nodes", apierrors.NewForbidden(nodes, "n1", errors.New("no")),
			[]string{"write status of node n1", "403"},
			4 * time.Second,
		},
		{
			"may not list pods", "list", "pods", apierrors.NewForbidden(pods, "", errors.New("no")),
			[]string{"list pods of node n1", "403"},
			10 * time.Second,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, nil)
				b.client.PrependReactor(tc.verb, tc.resource, func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, tc.err
				})
				start := time.Now()
				err := b.node.Run(t.Context())
				if err == nil {
					t.Fatal("no error")
				}
				for _, want := range tc.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%q lacks %q", err, want)
					}
				}
				if took := time.Since(start); took > tc.within {
					t.Errorf("took %v", took)
				}
				// A controller that failed to start ends its pings by itself.
				time.Sleep(time.Minute)
			})
		})
	}
}

func TestStartIsPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		begin := time.Now()
		b.client.PrependReactor("*", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			return time.Since(begin) < 10*time.Second, nil, errors.New("connection refused")
		})
		b.run(func() {
			b.settle(15 * time.Second)
			b.expectReady("True", "KubeletReady")
		})
	})
}

func TestCancelledBeforeItStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.client.PrependReactor("*", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("connection refused")
		})
		b.run(func() { b.settle(5 * time.Second) })
	})
}

func TestPortIsTakenBeforeTheNodeIsRegistered(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	b := newBench(t, func(c *Config) {
		c.API = &kubeletapi.Options{Address: taken.Addr().String(), SelfSigned: true}
	})
	err = b.node.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), taken.Addr().String()) {
		t.Errorf("got %v", err)
	}
	if found := b.client.Actions(); len(found) != 0 {
		t.Errorf("the API server was called: %v", found)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"node name is missing":   func(c *Config) { c.NodeName = "" },
		"Enqueue is missing":     func(c *Config) { c.Enqueue = nil },
		"is not an IP address":   func(c *Config) { c.Node.InternalIP = "here" },
		"no serving certificate": func(c *Config) { c.API = &kubeletapi.Options{} },
		"address of this node":   func(c *Config) { c.Node.InternalIP, c.Server = "", "https://[::bad" },
		"duplicate metrics":      func(c *Config) { _, _ = newMetrics(c.Registerer) },
	} {
		pods, err := NewPodInformer(fake.NewClientset(), "n1")
		if err != nil {
			t.Fatal(err)
		}
		remote := newRemote()
		cfg := Config{
			NodeName: "n1", Client: fake.NewClientset(), Pods: pods, Enqueue: func(string) {}, Engine: remote,
			Backend: backend.Backend{Node: remote}, Node: NodeOptions{InternalIP: "10.0.0.9"},
			Registerer: prometheus.NewRegistry(),
		}
		change(&cfg)
		if _, err := New(cfg); err == nil || name != "duplicate metrics" && !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	ip, err := OutboundIP("https://127.0.0.1:6443")
	if err != nil || ip != "127.0.0.1" {
		t.Errorf("outbound address %s, %v", ip, err)
	}
}
