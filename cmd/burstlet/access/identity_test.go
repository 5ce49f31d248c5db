package access

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/provider"
)

// age is a time so many hours before now.
func age(hours int) metav1.Time {
	return metav1.NewTime(time.Date(2026, 1, 1, 24-hours, 0, 0, 0, time.UTC))
}

func service(uid types.UID, made metav1.Time) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", UID: uid, CreationTimestamp: made},
	}
}

func nodeWith(identity string, made metav1.Time) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge", CreationTimestamp: made}}
	if identity != "" {
		node.Annotations = map[string]string{provider.IdentityAnnotation: identity}
	}
	return node
}

func TestNodeIdentity(t *testing.T) {
	const own = "svc-1/edge"
	for _, tc := range []struct {
		name       string
		configured string
		node       *corev1.Node
		service    *corev1.Service
		want       string
		refused    []string // what the error says
	}{
		{name: "a new node", service: service("svc-1", age(9)), want: own},
		{name: "a new node with a configured one", configured: "mine", want: "mine"},
		{
			name: "a node from before identities stood on nodes", node: nodeWith("", age(5)), service: service("svc-1", age(9)),
			want: own,
		},
		{name: "the same, configured", configured: "mine", node: nodeWith("", age(5)), want: "mine"},
		{name: "as it was", node: nodeWith(own, age(5)), service: service("svc-1", age(9)), want: own},
		{name: "the same, configured", configured: "mine", node: nodeWith("mine", age(5)), want: "mine"},
		{name: "the Service was made again", node: nodeWith(own, age(5)), service: service("svc-2", age(1)), want: own},
		{name: "the Service was deleted just now", node: nodeWith(own, age(5)), want: own},
		{
			name: "no Service to derive it from", refused: []string{"Service default/kubernetes", "set node.identity"},
		},
		{
			name: "another is configured", configured: "other", node: nodeWith(own, age(5)), service: service("svc-1", age(9)),
			refused: []string{"node.identity", `"other"`, `"` + own + `"`, "kubectl annotate node edge burstlet.dev/identity-"},
		},
		{
			name: "the configured one was taken out", node: nodeWith("mine", age(5)), service: service("svc-1", age(9)),
			refused: []string{"node.identity", `"mine"`, "none is configured"},
		},
		{
			name: "it is another node's", node: nodeWith("svc-1/core", age(5)), service: service("svc-1", age(9)),
			refused: []string{"node.identity", "not derived from its name"},
		},
		{
			name: "the Node was copied from another cluster", node: nodeWith("svc-0/edge", age(1)),
			service: service("svc-1", age(9)),
			refused: []string{
				"node.identity", "copied from another cluster", "kubectl annotate node edge burstlet.dev/identity-",
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client := fake.NewClientset()
			if tc.node != nil {
				add(t, client, tc.node)
			}
			if tc.service != nil {
				add(t, client, tc.service)
			}
			var cfg config.Configuration
			cfg.Node.Name, cfg.Node.Identity = "edge", tc.configured
			got, err := NodeIdentity(t.Context(), client, cfg, "https://api")
			if tc.refused == nil {
				if err != nil || got != tc.want {
					t.Errorf("%q, %v, want %q", got, err, tc.want)
				}
				return
			}
			if err == nil {
				t.Fatalf("not refused: %q", got)
			}
			if tc.node != nil && !errors.Is(err, ErrIdentity) {
				t.Errorf("%v is not ErrIdentity", err)
			}
			for _, word := range tc.refused {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%v does not say %q", err, word)
				}
			}
		})
	}
}

func add(t *testing.T, client *fake.Clientset, obj runtime.Object) {
	t.Helper()
	if err := client.Tracker().Add(obj); err != nil {
		t.Fatal(err)
	}
}

// A node starts while the API server is coming up, and says what keeps it.
func TestNodeIdentityIsPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(service("svc-1", age(9)))
		calls := 0
		var fail func() error
		client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			calls++
			err := fail()
			return err != nil, nil, err
		})
		var cfg config.Configuration
		cfg.Node.Name = "edge"
		down := errors.New("connection refused")
		fail = func() error {
			if calls < 5 {
				return down
			}
			return nil
		}
		if got, err := NodeIdentity(t.Context(), client, cfg, "https://api"); err != nil || got != "svc-1/edge" {
			t.Errorf("%q, %v", got, err)
		}
		fail = func() error { return down }
		began := time.Now()
		_, err := NodeIdentity(t.Context(), client, cfg, "https://api")
		if !errors.Is(err, down) || !strings.Contains(err.Error(), "https://api") || time.Since(began) != FirstCallTimeout {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		fail = func() error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "edge", errors.New("no"))
		}
		began = time.Now()
		if _, err = NodeIdentity(t.Context(), client, cfg, "https://api"); !apierrors.IsForbidden(err) ||
			time.Since(began) > 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// A node with static pods and an identity of its own does not wait for the API server; what
// the server says counts as ever.
func TestNodeIdentityWithoutTheAPI(t *testing.T) {
	down := errors.New("connection refused")
	for _, tc := range []struct {
		name       string
		configured string
		pods       config.Pods
		answer     error
		takes      time.Duration
		want       string
	}{
		{"files", "mine", config.Pods{StaticPodPath: "/etc/m"}, down, aloneTimeout, "mine"},
		{"a URL", "mine", config.Pods{StaticPodURL: "http://m"}, down, aloneTimeout, "mine"},
		{"no static pods", "mine", config.Pods{}, down, FirstCallTimeout, ""},
		{"no identity", "", config.Pods{StaticPodPath: "/etc/m"}, down, FirstCallTimeout, ""},
		{
			"no right", "mine",
			config.Pods{StaticPodPath: "/etc/m"},
			apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "edge", down), 0, "",
		},
		{"another identity", "mine", config.Pods{StaticPodPath: "/etc/m"}, nil, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset(nodeWith("other/edge", age(5)))
				client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
					return tc.answer != nil, nil, tc.answer
				})
				cfg := config.Configuration{Pods: tc.pods}
				cfg.Node.Name, cfg.Node.Identity = "edge", tc.configured
				began := time.Now()
				got, err := NodeIdentity(t.Context(), client, cfg, "https://api")
				if err == nil && got != tc.want || (err == nil) != (tc.want != "") || time.Since(began) != tc.takes {
					t.Errorf("%q after %v: %v; want %q after %v", got, time.Since(began), err, tc.want, tc.takes)
				}
			})
		})
	}
}
