package e2e

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// TestSystemOOM has the log of a host's kernel say that it killed processes: a pipe stands in
// its place, for a kernel that has no memory left would kill others too. The Node has an Event
// about the one that was killed because of the host.
func TestSystemOOM(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, waiter, 20*time.Second)
	c := theCluster(t)
	h := newContainerdHost(t)
	// Without a writer the pipe would be at its end.
	writer := h.Command(t.Context(), "sh", "-c",
		"rm -f /dev/kmsg && mkfifo -m 600 /dev/kmsg && exec 3<>/dev/kmsg && echo open && sleep infinity")
	out, err := writer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = writer.Wait() }) // killed with its context
	if said, err := bufio.NewReader(out).ReadString('\n'); err != nil || said != "open\n" {
		t.Fatalf("%q, %v", said, err)
	}
	n := newNode(t, c, "oom", h.section())
	n.run()
	sequence := 0
	line := func(format string, pid int) {
		t.Helper()
		sequence++
		text := fmt.Sprintf("6,%d,%d,-;"+format, sequence, 5_000_000*sequence, pid)
		if out, err := h.Command(t.Context(), "sh", "-c", "echo '"+text+"' >/dev/kmsg").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	const want = "System OOM encountered, victim process: mysqld, pid: 1042"
	wait.For(t, patience, "the Node has an Event", func() error {
		// What stands in the log before burstlet first looks is not told: it is said again.
		line("Memory cgroup out of memory: Killed process %d (contained) total-vm:1kB", 77)
		line("Out of memory: Killed process %d (mysqld) total-vm:1kB", 1042)
		events, err := c.client.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(),
			metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,reason=SystemOOM,involvedObject.name=" + n.name})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if strings.Contains(e.Message, "contained") {
				t.Fatalf("an Event about a process of a container: %s", e.Message)
			}
			if e.Message == want && e.Type == "Warning" && string(e.InvolvedObject.UID) == n.name {
				return nil
			}
		}
		return fmt.Errorf("%d Events", len(events.Items))
	})
}
