package removal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// in runs f in a world that goes its course in virtual time.
func in(t *testing.T, running bool, f func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, running)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.live(ctx) }()
		defer func() { cancel(); <-done }()
		f(t, w)
	})
}

func (w *world) said(want string) bool {
	return slices.ContainsFunc(w.lines, func(line string) bool { return strings.Contains(line, want) })
}

func (w *world) wantSaid(want ...string) {
	w.t.Helper()
	for _, text := range want {
		if !w.said(text) {
			w.t.Errorf("not said: %s", text)
		}
	}
	if w.t.Failed() {
		w.t.Logf("said:\n%s", strings.Join(w.lines, "\n"))
	}
}

func TestBesideARunningBurstlet(t *testing.T) {
	in(t, true, func(t *testing.T, w *world) {
		if err := Run(t.Context(), []*Node{w.node()}, w.deployment()); err != nil {
			t.Error(err)
		}
		w.wantNothingLeft()
		w.wantSaid("node edge: found, pods: 3", "node edge: cordoned", "burstlet-1 runs it and ends its pods",
			"pod default/bare has no controller: nobody makes it again", "pod default/web evicted", "drained, pods: 2",
			"deployment burstlet/burstlet: scaled to 0", "taken over", "pod default/agent deleted",
			"Node deleted", "deleted on the remote: secret s", "nothing of it is left on the remote",
			"lease kube-node-lease/edge deleted", "certificate requests deleted: 1", "lease burstlet/burstlet-edge deleted")
		if w.said("waiting until") {
			t.Error("a clean end is waited after")
		}
	})
}

func TestWithNoBurstletRunning(t *testing.T) {
	in(t, false, func(t *testing.T, w *world) {
		if err := Run(t.Context(), []*Node{w.node()}, nil); err != nil {
			t.Error(err)
		}
		w.wantNothingLeft()
		w.wantSaid("no burstlet runs it", "taken over", "pod default/bare evicted")
	})
}

// What the remote cannot show yet is waited for, which is said.
func TestASweepThatWaitsSaysWhy(t *testing.T) {
	in(t, false, func(t *testing.T, w *world) {
		w.unlisted = 90
		if err := Run(t.Context(), []*Node{w.node()}, nil); err != nil {
			t.Error(err)
		}
		w.wantNothingLeft()
		n := 0
		for _, line := range w.lines {
			if strings.Contains(line, "deleting what it keeps on the remote waits: some are not listed yet") {
				n++
			}
		}
		if n != 2 {
			t.Errorf("said %d times in 90 s", n)
		}
	})
}

// Where its time is over while the sweep waits, it says what remains and why; run again it
// goes on.
func TestASweepThatTakesTooLongSaysWhatRemains(t *testing.T) {
	in(t, false, func(t *testing.T, w *world) {
		w.unlisted = 90
		n := w.node()
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := Run(short, []*Node{n}, nil); !errors.Is(err, ErrTime) {
			t.Fatalf("error %v, want %v", err, ErrTime)
		}
		const want = "what it keeps on the remote beside pods: some are not listed yet"
		if left := strings.Join(n.Remains(t.Context()), "\n"); !strings.Contains(left, want) {
			t.Errorf("remains:\n%s", left)
		}
		n = w.node()
		if err := Run(t.Context(), []*Node{n}, nil); err != nil {
			t.Error(err)
		}
		if left := n.Remains(t.Context()); len(left) > 0 {
			t.Errorf("remains: %v", left)
		}
		w.wantNothingLeft()
	})
}

// Killed after each line that it says, and run again, it always comes to its end.
func TestKilledAnywhereItGoesOn(t *testing.T) {
	for _, running := range []bool{true, false} {
		over := false
		for kill := 1; !over; kill++ {
			t.Run(fmt.Sprintf("running %v, killed after line %d", running, kill), func(t *testing.T) {
				in(t, running, func(t *testing.T, w *world) {
					first, stop := context.WithCancel(t.Context())
					defer stop()
					w.onLine = func(n int, _ string) {
						if n == kill {
							stop()
						}
					}
					err := Run(first, []*Node{w.node()}, w.deployment())
					if over = len(w.lines) < kill; over && err != nil {
						t.Error(err)
					}
					w.onLine = nil
					if err := Run(t.Context(), []*Node{w.node()}, w.deployment()); err != nil {
						t.Errorf("the second time: %v", err)
					}
					w.wantNothingLeft()
				})
			})
		}
	}
}

func TestABudgetHoldsForAWhile(t *testing.T) {
	for _, tc := range []struct {
		name    string
		force   time.Duration
		atLeast time.Duration
		fails   bool
	}{
		{"a minute", time.Minute, time.Minute, false},
		{"not at all", 0, 0, false},
		{"for ever", -1, 0, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in(t, true, func(t *testing.T, w *world) {
				w.budget = "web"
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				began := time.Now()
				n := w.node(func(c *Config) { c.ForceAfter = tc.force })
				err := Run(ctx, []*Node{n}, w.deployment())
				if !tc.fails {
					if took := time.Since(began); err != nil || took < tc.atLeast || took > tc.atLeast+time.Minute {
						t.Errorf("%v after %v", err, took)
					}
					w.wantNothingLeft()
					return
				}
				if !errors.Is(err, ErrTime) {
					t.Errorf("error %v", err)
				}
				left := strings.Join(n.Remains(t.Context()), "\n")
				if !strings.Contains(left, "pod default/web: it was not let go: Cannot evict pod as it would violate") ||
					!strings.Contains(left, "the Node") {
					t.Errorf("remains:\n%s", left)
				}
				if !w.running {
					t.Error("burstlet was ended before its pods")
				}
			})
		})
	}
}

func TestAFinalizerKeepsOnlyItsPod(t *testing.T) {
	in(t, true, func(t *testing.T, w *world) {
		pod := w.pods("default")[slices.IndexFunc(w.pods("default"), func(p *corev1.Pod) bool { return p.Name == "web" })]
		pod.Finalizers = []string{"example.org/never"}
		if err := w.tracker.Update(podKind, pod, "default"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		n := w.node()
		if err := Run(ctx, []*Node{n}, w.deployment()); !errors.Is(err, ErrTime) {
			t.Errorf("error %v", err)
		}
		if got, want := strings.Join(n.Remains(t.Context()), "\n"), "pod default/web: it has ended and waits for its "+
			"finalizers example.org/never"; got != want {
			t.Errorf("remains:\n%s\nwant\n%s", got, want)
		}
		pod.Finalizers = nil
		if err := w.tracker.Delete(podKind, "default", "web"); err != nil {
			t.Fatal(err)
		}
		w.wantNothingLeft()
	})
}

// A controller that binds pods itself makes them again, Node or not: nothing starts
// them, and whoever waits is told whose they are.
func TestPodsThatAreMadeAgainForEver(t *testing.T) {
	in(t, true, func(t *testing.T, w *world) {
		w.stubborn = true
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		n := w.node()
		if err := Run(ctx, []*Node{n}, w.deployment()); !errors.Is(err, ErrTime) {
			t.Errorf("error %v", err)
		}
		if left := strings.Join(n.Remains(t.Context()), "\n"); !strings.Contains(left, "made again by DaemonSet owner") &&
			!strings.Contains(left, "was asked to end") {
			t.Errorf("remains:\n%s", left)
		}
		if facts, err := (remotePods{w: w}).List(t.Context()); err != nil || len(facts) != 0 {
			t.Errorf("on the remote: %v, %v", facts, err)
		}
	})
}

func TestForeignNodesAreLeftAlone(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*corev1.Node)
		config func(*Config)
		want   string
	}{
		{
			"a kubelet's", func(n *corev1.Node) { n.Labels, n.Status.NodeInfo.KubeletVersion = nil, "v1.36.3" }, nil,
			"not a node of burstlet",
		},
		{
			"another virtual kubelet's", func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.36.3-other" }, nil,
			"not a node of burstlet",
		},
		{
			"the one that this process runs on", nil, func(c *Config) { c.Self.Namespace, c.Self.Name = "default", "web" },
			"run it elsewhere",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in(t, true, func(t *testing.T, w *world) {
				node, err := w.client.CoreV1().Nodes().Get(t.Context(), "edge", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if tc.change != nil {
					tc.change(node)
				}
				if err := w.tracker.Update(corev1.SchemeGroupVersion.WithResource("nodes"), node, ""); err != nil {
					t.Fatal(err)
				}
				nodes := []*Node{w.node(func(c *Config) { c.Name = "other" }), w.node(func(c *Config) {
					if tc.config != nil {
						tc.config(c)
					}
				})}
				w.client.ClearActions()
				if err := Run(t.Context(), nodes, w.deployment()); err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("error %v", err)
				}
				for _, a := range w.client.Actions() {
					if v := a.GetVerb(); v != "get" && v != "list" {
						t.Errorf("it did %s %s", v, a.GetResource().Resource)
					}
				}
			})
		})
	}
}

func TestKeptPodsStayOnTheRemote(t *testing.T) {
	in(t, true, func(t *testing.T, w *world) {
		n := w.node(func(c *Config) { c.KeepPods = true })
		if err := Run(t.Context(), []*Node{n}, w.deployment()); err != nil {
			t.Error(err)
		}
		if len(w.pods("default")) != 1 || len(w.secrets) != 2 {
			t.Errorf("pods in the API %v, secrets %v", w.pods("default"), w.secrets)
		}
		w.wantSaid("stays on the remote: pod default/uid-web-1 (uid uid-web-1, attempt 0)", "Node deleted")
	})
}

// A Deployment with other nodes is given back its replicas when the removal fails,
// and stays at 0 when it succeeds: its configuration is an old one then.
func TestADeploymentWithOtherNodesIsScaledBackOnFailure(t *testing.T) {
	for _, tc := range []struct {
		name           string
		shared, fails  bool
		before, wanted int32
	}{
		{"shared, and it fails", true, true, 2, 2},
		{"not shared", false, true, 2, 0},
		{"it succeeds", true, false, 2, 0},
		{"it was at 0 before", true, true, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in(t, true, func(t *testing.T, w *world) {
				w.replicas = tc.before
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				w.onLine = func(_ int, line string) {
					if tc.fails && strings.Contains(line, "its processes have ended") {
						stop()
					}
				}
				if tc.before == 0 {
					w.stopped = time.Now()
				}
				d := w.deployment()
				d.Shared = tc.shared
				if err := Run(ctx, []*Node{w.node()}, d); (err != nil) != tc.fails {
					t.Error(err)
				}
				if w.replicas != tc.wanted {
					t.Errorf("%d replicas, want %d", w.replicas, tc.wanted)
				}
				if tc.shared && tc.fails {
					w.wantSaid(map[bool]string{true: "scaled back to 2", false: "until you scale it up"}[tc.before > 0])
				}
			})
		})
	}
}

// Without an election and a Deployment it waits for a process that somebody stops,
// and for the launches that this one may have begun.
func TestAProcessThatSomebodyStops(t *testing.T) {
	in(t, true, func(t *testing.T, w *world) {
		w.onLine = func(_ int, line string) {
			if strings.Contains(line, "stop it") { // by force: the lease is not given up
				w.mu.Lock()
				w.running = false
				w.mu.Unlock()
			}
		}
		began := time.Now()
		if err := Run(t.Context(), []*Node{w.node()}, nil); err != nil {
			t.Error(err)
		}
		w.wantSaid("waiting for the end of burstlet-1, which runs it", "waiting until")
		if took := time.Since(began); took < time.Minute {
			t.Errorf("the settle time was not waited for: %v", took)
		}
	})
}
