package ecslife

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/kit/lane"
)

// Numbers of TestManyKills.
var (
	manyKills = lane.Pick(10, 25, 50)
	jobPods   = lane.Pick(20, 30, 60)
	webPods   = 20
)

// TestManyKills ends many processes in turn, each at a random call to AWS, while the pods of
// a Job come and end and others run on, on a server as AWS is: each of the Job ran once
// and succeeded, each of the others runs, once, and with them goes all that is billed.
func TestManyKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, stub.Config{Delays: storyDelays, Throttles: true})
		c.change = whole
		random := rand.New(rand.NewPCG(1, 2))
		for i := range webPods {
			c.create(
				fmt.Sprint("web-", i), corev1.RestartPolicyAlways, withFiles, "sh", "-c", "trap 'exit 0' TERM; sleep 100000",
			)
		}
		made, died := 0, 0
		for range manyKills {
			for range 2*jobPods/manyKills + 1 { // all in the first half of them
				if made < jobPods {
					c.create(fmt.Sprint("job-", made), corev1.RestartPolicyNever, withFiles, "sh", "-c", "sleep 5; exit 0")
					made++
				}
			}
			l := &link{at: 1 + random.IntN(40), fate: []fate{diesBefore, diesAmid, diesAfter}[random.IntN(3)]}
			p := c.start(l)
			select {
			case <-l.dead:
				died++
			case <-time.After(20 * time.Second): // it made fewer calls: it dies between two
			}
			p.end()
			c.pass(time.Duration(random.IntN(3000)) * time.Millisecond)
		}
		t.Logf("%d of %d processes died in a call", died, manyKills)
		p := c.start(&link{})
		defer func() { p.end() }()
		c.pass(15 * time.Minute)
		c.afterKills()
		c.afterAll()
		if cost := c.server.Cost(); cost.PerHour > 0 {
			t.Errorf("$%f an hour is billed still", cost.PerHour)
		}
	})
}

// afterKills is what must be once a process has lived for a while.
func (c *cluster) afterKills() {
	started := map[string]int{}
	for _, task := range c.server.TaskInfos() {
		if task.StopCode != "TaskFailedToStart" { // such as without a network interface
			started[task.Tags["burstlet/uid"]]++
		}
	}
	for i := range jobPods {
		name := fmt.Sprint("job-", i)
		if pod := c.get(name); pod.Status.Phase != corev1.PodSucceeded || started["uid-"+name] != 1 {
			c.t.Errorf(
				"%s is %s and ran in %d tasks: %+v", name, pod.Status.Phase, started["uid-"+name], pod.Status.ContainerStatuses,
			)
		}
	}
	live := c.live()
	for i := range webPods {
		name := fmt.Sprint("web-", i)
		pod := c.get(name)
		if pod.Status.Phase != corev1.PodRunning || live[pod.UID] != 1 || started["uid-"+name] != 1 {
			c.t.Errorf(
				"%s is %s with %d live tasks of %d: %+v", name, pod.Status.Phase, live[pod.UID], started["uid-"+name],
				pod.Status.ContainerStatuses,
			)
		}
	}
	if len(live) != webPods {
		c.t.Errorf("live tasks of %d pods: %v", len(live), live)
	}
}
