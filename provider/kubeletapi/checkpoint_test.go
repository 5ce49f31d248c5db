package kubeletapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// TestCheckpoint answers with a kubelet's words and statuses, to those with its right alone.
func TestCheckpoint(t *testing.T) {
	pod, _ := measuredPod()
	pod.Spec.InitContainers = []corev1.Container{{Name: "init"}}
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{
		{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}},
	}
	engine := &fakeEngine{pods: []*corev1.Pod{pod}}
	engine.archive = func(pod backend.Ref, container string, timeout time.Duration) (string, error) {
		if container == "debug" {
			return "", backend.Errorf(backend.ErrUnsupported, "the runtime cannot")
		}
		return fmt.Sprintf("/archives/%s.%s.%s.%s", pod.Namespace, pod.Name, container, timeout), nil
	}
	r := &reviews{
		tokens: map[string]string{"t": "u", "proxy": "p"},
		rights: map[string]map[string]bool{"u": {"checkpoint": true}, "p": {"proxy": true}},
	}
	s := serve(t, engine, r, nil)
	call, proxy := s.caller(t, nil, "t"), s.caller(t, nil, "proxy")
	for _, tt := range []struct {
		path, want string
		code       int
	}{
		{"ns/p/c", `{"items":["/archives/ns.p.c.2m0s"]}` + "\n", 200},
		{"ns/p/init?timeout=1&timeout=300", `{"items":["/archives/ns.p.init.5m0s"]}` + "\n", 200},
		{"ns/p/c?timeout=1", `{"items":["/archives/ns.p.c.2m0s"]}` + "\n", 200},
		{"ns/p/c?timeout=9223372036854775807", `{"items":["/archives/ns.p.c.24h0m0s"]}` + "\n", 200},
		{"ns/p/c?timeout=soon", "cannot parse value of timeout parameter", 404},
		{"ns/p/c?timeout=-1", "the timeout parameter must not be negative", 404},
		{"ns/q/c", "pod does not exist", 404},
		{"ns/p/x", "container x does not exist", 404},
		{"ns/p/debug", "checkpointing of ns/p/debug failed (the runtime cannot)", 500},
	} {
		resp := call("POST /checkpoint/" + tt.path)
		if text := body(t, resp); resp.StatusCode != tt.code || text != tt.want {
			t.Errorf("%s: %d %q, want %d %q", tt.path, resp.StatusCode, text, tt.code, tt.want)
		}
	}
	if got := proxy("POST /checkpoint/ns/p/c").StatusCode; got != http.StatusForbidden {
		t.Errorf("with nodes/proxy alone: %d", got)
	}
	if said := s.logged.String(); strings.Count(said, auditBegan) != 5 ||
		!strings.Contains(said, `"audit":"checkpoint"`) ||
		strings.Count(said, auditRefused) != 1 {
		t.Errorf("the audit trail: %s", said)
	}
}
