package statusmgr

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
)

// Behaviour 15: 4 KiB a container, 12 KiB a pod.
func TestTerminationMessagesAreBounded(t *testing.T) {
	for containers, want := range map[int]int{1: 4096, 3: 4096, 4: 3072, 12: 1024} {
		t.Run(fmt.Sprint(containers), func(t *testing.T) {
			pod := testPod("p", "u")
			pod.Spec.Containers = make([]corev1.Container, containers-1)
			pod.Spec.InitContainers = make([]corev1.Container, 1)
			end := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: strings.Repeat("x", 20<<10)}}
			s := corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{
				Name: "i", State: end, LastTerminationState: end,
			}}}
			total := 0
			for i := range containers - 1 {
				s.ContainerStatuses = append(
					s.ContainerStatuses, corev1.ContainerStatus{Name: fmt.Sprint(i), State: *end.DeepCopy()},
				)
			}
			got, err := prepare(pod, &corev1.PodStatus{}, &s, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range append(got.ContainerStatuses, got.InitContainerStatuses...) {
				if n := len(c.State.Terminated.Message); n != want {
					t.Errorf("%s keeps %d bytes, want %d", c.Name, n, want)
				}
				total += len(c.State.Terminated.Message)
			}
			if n := len(got.InitContainerStatuses[0].LastTerminationState.Terminated.Message); n != want {
				t.Errorf("the last state keeps %d bytes, want %d", n, want)
			}
			if total > maxPodTermination {
				t.Errorf("%d bytes in all", total)
			}
		})
	}
}

func TestOtherTextsAreBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	s := &corev1.PodStatus{
		Message: long, Reason: long,
		Conditions: []corev1.PodCondition{{Message: long, Reason: long}},
		ContainerStatuses: []corev1.ContainerStatus{{
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Message: long, Reason: long}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: long}},
		}},
	}
	boundStatus(&corev1.PodSpec{}, s)
	for name, c := range map[string]struct {
		text  string
		limit int
	}{
		"message": {s.Message, maxMessage}, "reason": {s.Reason, maxReason},
		"condition message": {s.Conditions[0].Message, maxMessage}, "condition reason": {s.Conditions[0].Reason, maxReason},
		"waiting message":   {s.ContainerStatuses[0].State.Waiting.Message, maxWaiting},
		"waiting reason":    {s.ContainerStatuses[0].State.Waiting.Reason, maxReason},
		"terminated reason": {s.ContainerStatuses[0].LastTerminationState.Terminated.Reason, maxReason},
	} {
		if len(c.text) != c.limit {
			t.Errorf("%s has %d bytes, want %d", name, len(c.text), c.limit)
		}
	}
}

func TestBound(t *testing.T) {
	cases := []struct {
		name, in string
		limit    int
		want     string
	}{
		{"short", "abc", 5, "abc"},
		{"exact", "abcde", 5, "abcde"},
		{"cut", "abcdef", 5, "abcde"},
		{"between runes", "aé€", 4, "aé"},
		{"no room for a rune", "€", 2, ""},
		{"invalid", "a\xff\xfeb", 10, "a\uFFFDb"},
		{"a rune cut before", "ab\xe2\x82", 10, "ab\uFFFD"},
		{"grown beyond the limit", "ab\xff", 3, "ab"},
		{"empty", "", 3, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := bound(c.in, c.limit); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func FuzzBound(f *testing.F) {
	f.Add("a\xff€é", 4)
	f.Fuzz(func(t *testing.T, in string, limit int) {
		limit = max(0, limit%100)
		got := bound(in, limit)
		if len(got) > limit || !utf8.ValidString(got) || bound(got, limit) != got {
			t.Errorf("bound(%q, %d) = %q", in, limit, got)
		}
	})
}

// JSON replaces bytes that are no UTF-8: what is compared must be what is stored.
func TestInvalidTextIsWrittenOnce(t *testing.T) {
	bubble(t, func(h *harness) {
		s := ended(corev1.PodFailed)
		s.Message = "bad \xff\xff text"
		s.ContainerStatuses[0].State.Terminated.Message = strings.Repeat("€", 2000) + "\xe2\x82"
		h.SetStatus(h.api.put(testPod("p", "u1")), s)
		h.settle()
		for range 5 {
			h.Observe(h.api.update("p", func(p *corev1.Pod) { p.Labels = map[string]string{"at": time.Now().String()} }))
			h.pass(time.Minute)
		}
		h.expect(1, 0, 0)
	})
}
