package ecslife

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/kit/lane"
)

// story is what happens in every crash test: a pod that runs and is deleted, one
// that ends with an exit code, one in a crash loop, and one with files of its own
// that finds no room at first. It lasts for storyTime.
func (c *cluster) story() {
	at := func(d time.Duration, f func()) { time.AfterFunc(d, f) }
	c.create("runs", corev1.RestartPolicyAlways, nil, "sleep", "100000")
	c.create("ends", corev1.RestartPolicyNever, nil, "sh", "-c", "sleep 20; exit 3")
	c.create("loops", corev1.RestartPolicyAlways, nil, "sh", "-c", "sleep 15; exit 7")
	at(30*time.Second, func() {
		c.server.Inject(stub.Fault{Action: "RunTask", Failure: "Capacity is unavailable at this time.", Times: 3})
		c.create("late", corev1.RestartPolicyAlways, withFiles, "sleep", "100000")
	})
	at(70*time.Second, func() { c.delete("runs") })
}

const storyTime = 2 * time.Minute

// secretsBound is when a secret must be gone whose launch never came.
const secretsBound = time.Hour

var storyDelays = stub.Delays{
	Provision: 3 * time.Second, Pull: 2 * time.Second, Deprovision: 2 * time.Second, Visible: 4 * time.Second,
}

// afterStory is what must be in the end, whatever crashed: long after the settle
// time, but within the hour in which ECS remembers.
func (c *cluster) afterStory() {
	t := c.t
	if pod := c.get("runs"); pod != nil {
		t.Errorf("the deleted pod is there still: %+v", pod.Status)
	}
	if pod := c.get("ends"); pod.Status.Phase != corev1.PodFailed || exitCode(pod) != 3 {
		t.Errorf("the pod that ended with 3 is %s: %+v", pod.Status.Phase, pod.Status.ContainerStatuses)
	}
	if s := c.get("loops").Status.ContainerStatuses[0]; s.RestartCount < 3 || s.LastTerminationState.Terminated == nil ||
		s.LastTerminationState.Terminated.ExitCode != 7 {
		t.Errorf("the pod in a crash loop: %+v", s)
	}
	if pod := c.get("late"); pod.Status.Phase != corev1.PodRunning {
		t.Errorf("the pod that found no room at first is %s: %+v", pod.Status.Phase, pod.Status.ContainerStatuses)
	}
	live := c.live()
	if live["uid-late"] != 1 || live["uid-ends"] != 0 || live["uid-runs"] != 0 {
		t.Errorf("live tasks: %v", live)
	}
	c.afterAll()
}

// afterAll deletes every pod, and wants nothing to be left.
func (c *cluster) afterAll() {
	t := c.t
	c.deleteAll()
	c.pass(5 * time.Minute)
	if keys := c.ListKeys(); len(keys) > 0 {
		t.Errorf("after the deletion of all: %v", keys)
	}
	if left := c.live(); len(left) > 0 {
		t.Errorf("left to be paid for: %v", left)
	}
	time.Sleep(secretsBound)
	for _, s := range c.server.Secrets() {
		if strings.Contains(s.Name, "/pod/") && !s.Deleted {
			t.Errorf("left in the store: %s", s.Name)
		}
	}
}

// withFiles gives the pod a volume with contents of its own.
func withFiles(pod *corev1.Pod) {
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "info", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
			Items: []corev1.DownwardAPIVolumeFile{
				{Path: "name", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}},
			},
		}}},
	}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "info", MountPath: "/info"}}
}

func exitCode(pod *corev1.Pod) int32 {
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Terminated != nil {
			return s.State.Terminated.ExitCode
		}
	}
	return -1
}

// tell plays the story with a process that dies at the call of link, and returns
// the calls of its first life.
func tell(t *testing.T, l *link, pause time.Duration) (calls []string) {
	calls, _ = tellOn(t, stub.Config{Delays: storyDelays}, l, pause)
	return calls
}

// tellOn does so on a server of some kind, and returns the phases that each pod went through,
// too.
func tellOn(t *testing.T, server stub.Config, l *link, pause time.Duration) (calls []string, phases map[string]string) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, server)
		c.change = whole
		p := c.start(l)
		time.Sleep(time.Second)
		c.story()
		over := time.NewTimer(storyTime)
		select {
		case <-l.dead:
		case <-over.C:
		}
		over.Stop()
		l.mu.Lock()
		calls = slices.Clone(l.calls)
		l.mu.Unlock()
		if !l.alive() {
			p.end()
			c.pass(pause)
			p = c.start(&link{})
		}
		defer func() { p.end() }()
		c.pass(8 * time.Minute)
		phases = c.phasesSeen()
		c.afterStory()
	})
	return calls, phases
}

// phasesSeen are the phases that the API had of each pod, in their order.
func (c *cluster) phasesSeen() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]string{}
	for name, phases := range c.phases {
		out[name] = strings.Join(phases, " ")
	}
	return out
}

// TestTheStoryInOtherWords tells the story on a server that says every error in words that
// nobody knows, and as AWS says it: each pod goes through the same phases, also at AWS's rates,
// where an answer is lost, and where the process dies.
func TestTheStoryInOtherWords(t *testing.T) {
	for name, tt := range map[string]struct {
		throttles bool
		at        int
		fate      fate
	}{
		"nothing fails":                  {},
		"AWS's rates":                    {throttles: true},
		"a launch of which nobody hears": {at: 7, fate: unheard},
		"the process dies":               {throttles: true, at: 20, fate: diesAfter},
	} {
		t.Run(name, func(t *testing.T) {
			server := stub.Config{Delays: storyDelays, Throttles: tt.throttles}
			_, plain := tellOn(t, server, &link{at: tt.at, fate: tt.fate}, time.Second)
			server.Reworded = true
			_, reworded := tellOn(t, server, &link{at: tt.at, fate: tt.fate}, time.Second)
			if len(plain) != 4 || !maps.Equal(plain, reworded) {
				t.Errorf("in AWS's words %v, in others %v", plain, reworded)
			}
		})
	}
}

// every is for "go test ./test/suite/ecslife -every": else each fate meets every 19th call,
// each fate others.
var every = flag.Bool("every", false, "let every fate meet every call")

// TestFateOfEveryCall ends the process before, amid and after each of its calls to
// AWS and begins another, and lets the call or its reply be lost to a process that
// lives on: no pod has two live tasks at any moment, nothing is left over, and exit
// codes are kept.
func TestFateOfEveryCall(t *testing.T) {
	calls := tell(t, &link{}, 0)
	if t.Failed() {
		t.Fatalf("it does not end well even if nothing fails, after %d calls", len(calls))
	}
	step := lane.Pick(57, 19, 19)
	if *every {
		step = 1
	}
	points := 0
	for i, f := range []fate{diesBefore, diesAmid, diesAfter, unsent, unheard} {
		for at := 1 + i%step; at <= len(calls); at += step {
			t.Run(fmt.Sprintf("call %d, %s", at, f), func(t *testing.T) {
				tell(t, &link{at: at, fate: f}, []time.Duration{500 * time.Millisecond, 20 * time.Second}[at%2])
				points++
			})
		}
	}
	t.Logf("%d points over %d calls", points, len(calls))
}
