package main

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testPod is a pod as it should be: alone on the demo's node, running and ready.
func testPod(name string, change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{NodeName: nodeName, Containers: []corev1.Container{{Name: "main"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "ip-of-" + name,
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main"}},
		},
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

func pending(p *corev1.Pod)  { p.Status.Phase = corev1.PodPending }
func done(p *corev1.Pod)     { p.Status.Phase = corev1.PodSucceeded }
func deleted(p *corev1.Pod)  { p.DeletionTimestamp = &metav1.Time{} }
func notReady(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

func TestWants(t *testing.T) {
	tests := []struct {
		pods      []corev1.Pod
		summary   string
		running   bool // two
		succeeded bool // two
		gone      bool
	}{
		{summary: "no pods", gone: true},
		{pods: []corev1.Pod{testPod("a")}, summary: "1 Running"},
		{pods: []corev1.Pod{testPod("a"), testPod("b")}, summary: "2 Running", running: true},
		{pods: []corev1.Pod{testPod("a"), testPod("b"), testPod("c")}, summary: "3 Running"},
		{pods: []corev1.Pod{testPod("a"), testPod("b", pending)}, summary: "1 Pending, 1 Running"},
		{pods: []corev1.Pod{testPod("a"), testPod("b", notReady)}, summary: "1 Running, 1 Running, not ready"},
		{pods: []corev1.Pod{testPod("a"), testPod("b", deleted)}, summary: "1 Running, 1 Terminating"},
		{pods: []corev1.Pod{testPod("a", done), testPod("b", done)}, summary: "2 Succeeded", succeeded: true},
		{pods: []corev1.Pod{testPod("a", done), testPod("b", done, deleted)}, summary: "1 Succeeded, 1 Terminating"},
	}
	for _, tc := range tests {
		t.Run(tc.summary, func(t *testing.T) {
			if got := summary(tc.pods); got != tc.summary {
				t.Errorf("summary %q", got)
			}
			for name, check := range map[string]struct{ got, want bool }{
				"running":   {running(2)(tc.pods), tc.running},
				"succeeded": {succeeded(2)(tc.pods), tc.succeeded},
				"gone":      {gone(tc.pods), tc.gone},
			} {
				if check.got != check.want {
					t.Errorf("%s: %t", name, check.got)
				}
			}
		})
	}
}

func TestCheckPods(t *testing.T) {
	tests := map[string]struct {
		second corev1.Pod
		want   string
	}{
		"fine":         {testPod("b"), ""},
		"another node": {testPod("b", func(p *corev1.Pod) { p.Spec.NodeName = "other" }), `on node "other"`},
		"no address":   {testPod("b", func(p *corev1.Pod) { p.Status.PodIP = "" }), "no address of its own"},
		"shared":       {testPod("b", func(p *corev1.Pod) { p.Status.PodIP = "ip-of-a" }), "(a)"},
		"was restarted": {
			testPod("b", func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = 2 }), "restarted 2 times",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			expectError(t, checkPods([]corev1.Pod{testPod("a"), tc.second}), tc.want)
		})
	}
}

func TestCheckLogs(t *testing.T) {
	const both = "[pod/a/main] hello from a\n[pod/b/main] noise\n[pod/b/main] hello from b\n"
	tests := map[string]struct{ output, want string }{
		"all":             {both, ""},
		"one is missing":  {"[pod/a/main] hello from a\n", `pod b lacks the line "hello from b"`},
		"another's line":  {strings.ReplaceAll(both, "from b", "from a"), "pod b lacks"},
		"more than that":  {strings.ReplaceAll(both, "from b", "from b2"), "pod b lacks"},
		"nothing at all":  {"", "pod a lacks"},
		"other container": {strings.ReplaceAll(both, "b/main", "b/side"), "pod b lacks"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := checkLogs(tc.output, []corev1.Pod{testPod("a"), testPod("b")},
				func(pod string) []string { return []string{"hello from " + pod} })
			expectError(t, err, tc.want)
		})
	}
}

func expectError(t *testing.T, err error, want string) {
	t.Helper()
	if got := fmt.Sprint(err); want == "" && err != nil || want != "" && !strings.Contains(got, want) {
		t.Errorf("error %q, not %q", got, want)
	}
}

func TestRows(t *testing.T) {
	for table, want := range map[string]int{"": 0, "HEAD\n": 0, "HEAD \na\nb\n": 2} {
		if got := rows(table); got != want {
			t.Errorf("%q has %d", table, got)
		}
	}
}
