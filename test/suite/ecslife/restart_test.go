package ecslife

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"

	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/kit/logs"
)

// ECS shows a task for an hour after it has stopped. A process that starts then says nothing
// of those whose pods are gone; of one that lives still it does.
func TestARestartIsSilentAboutWhatHasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ended = 30
		c := newCluster(t, stub.Config{Delays: usual})
		p := c.start(&link{})
		time.Sleep(time.Second)
		for i := range ended {
			c.create(fmt.Sprint("ended-", i), corev1.RestartPolicyNever, nil, "sleep", "20")
		}
		c.pass(2 * time.Minute)
		c.deleteAll()
		c.pass(2 * time.Minute)
		if keys := c.ListKeys(); len(keys) > 0 {
			t.Fatalf("after the deletion of all: %v", keys)
		}
		c.create("lives", corev1.RestartPolicyAlways, nil, "nginx")
		c.pass(time.Minute)
		p.end()
		c.mu.Lock()
		delete(c.pods, "ns/lives") // by force, while nobody looked
		c.mu.Unlock()
		if shown := len(c.server.Tasks(false)); shown != ended+1 {
			t.Fatalf("ECS shows %d tasks, want %d", shown, ended+1)
		}

		var said logs.Buffer
		logrus.SetOutput(&said)
		defer logrus.SetOutput(io.Discard)
		p = c.start(&link{})
		defer func() { p.end() }()
		c.pass(10 * time.Minute)
		var lines []string
		for line := range strings.Lines(said.String()) {
			if strings.Contains(line, "ended-") {
				lines = append(lines, line)
			}
		}
		if len(lines) > 0 {
			t.Errorf("%d lines of %d pods that are gone:\n%s", len(lines), ended, lines[0])
		}
		for _, words := range []string{"ending a pod that the API does not have", "pod is gone from the API and the remote"} {
			if !strings.Contains(said.String(), words) {
				t.Errorf("of the pod that lived it does not say %q:\n%s", words, said.String())
			}
		}
		if left := c.live(); len(left) > 0 {
			t.Errorf("left to be paid for: %v", left)
		}
	})
}
