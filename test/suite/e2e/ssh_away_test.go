package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// asBidden writes so many numbered lines, of 140 bytes in its log, as the file go in its
// volume says, which it then removes.
const asBidden = `i=0; while :; do
	if [ -s /bidden/go ]; then
		n=$((i+$(cat /bidden/go)))
		while [ $i -lt $n ]; do i=$((i+1)); echo "$i 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"; done
		rm /bidden/go
	fi
	sleep 0.1
done`

// burstLines are more than one file of the log may have.
const burstLines = 1600

// TestLogsWhileAway: burstlet is killed, and its host goes on keeping the log of a container
// that writes much within its bounds. Another burstlet ends that; the log has no gap, and when
// the pod is deleted nothing is left on the host.
func TestLogsWhileAway(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, waiter, 75*time.Second)
	const size, files = 200 << 10, 3
	c := theCluster(t)
	h := newContainerdHost(t)
	before := h.traces(t)
	n := newNode(t, c, "away", h.section("containerLogMaxSize: 200Ki", "containerLogMaxFiles: 3"))
	n.run()
	l := &life{T: t, c: c, n: n, namespace: c.namespace(t, "away"), remote: remote{mounts: true}}
	pod := l.create(
		l.pod([]string{"sh", "-c", asBidden}, mount("bidden", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})),
	)
	l.comes(pod.Name, patience, isReady)
	pod, err := l.pods().Get(t.Context(), pod.Name, metav1.GetOptions{})
	l.must(err)
	asked := filepath.Join(podsOnHost, string(pod.UID), "volumes", "bidden", "go")
	burst := func() {
		t.Helper()
		begin, err := h.logSizes(string(pod.UID))
		l.must(err)
		h.write(t, asked, strconv.Itoa(burstLines))
		wait.For(t, patience, "the log is rotated, and within its bounds", func() error {
			sizes, err := h.logSizes(string(pod.UID))
			if err == nil && (sizes.newest == begin.newest || sizes.now >= size || sizes.all > files*size ||
				len(h.matches(asked)) > 0) {
				err = fmt.Errorf(
					"it has %d bytes, and %d in all; the newest of its files is %q", sizes.now, sizes.all, sizes.newest,
				)
			}
			return err
		})
	}
	burst()
	n.kill()
	wait.For(t, patience, "somebody rotates on the host", func() error {
		if len(h.keepers()) != 2 {
			return fmt.Errorf("there is %q", h.keepers())
		}
		return nil
	})
	for range 3 {
		burst()
	}
	n.run()
	wait.For(t, patience, "burstlet rotates by itself again", func() error {
		if left := h.keepers(); len(left) > 0 {
			return fmt.Errorf("there is %q", left)
		}
		return nil
	})
	burst()
	h.write(t, asked, "10")
	const last = 5*burstLines + 10
	wait.For(t, patience, "the last line", func() error {
		if out := l.kubectl("", "logs", pod.Name).out; !strings.Contains(out, fmt.Sprintf("\n%d ", last)) {
			return fmt.Errorf("it ends with %q", tail(out, 200))
		}
		return nil
	})
	noGap(t, l.kubectl("", "logs", pod.Name).out, last, 10)
	noGap(t, h.wholeLog(t, string(pod.UID)), last, burstLines+10)
	l.must(l.pods().Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))
	l.untilGone(pod.Name)
	h.empty(t)
	n.stop()
	h.sameTraces(t, before, "its pod was deleted")
	h.empty(t)
}

// noGap wants the lines that lead to the last, and at least so many.
func noGap(t *testing.T, printed string, last, least int) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(printed, "\n"), "\n")
	for i, line := range lines {
		number, _, _ := strings.Cut(line, " ")
		if want := strconv.Itoa(last - len(lines) + 1 + i); number != want {
			t.Fatalf("line %d of %d is %.20q, want number %s", i+1, len(lines), line, want)
		}
	}
	if len(lines) < least {
		t.Errorf("there are %d lines, want at least %d", len(lines), least)
	}
}

// wholeLog is what all files of the log of a pod's only container say, the oldest first.
func (h *containerdHost) wholeLog(t *testing.T, uid string) string {
	t.Helper()
	script := `cd "$1"; { for f in 0.log.*; do zcat -f "$f"; done; cat 0.log; } | cut -d' ' -f4-`
	out, err := h.Command(t.Context(), "sh", "-ec", script, "sh", h.logDir(uid)).CombinedOutput()
	if err != nil {
		t.Fatalf("read the log on the host: %v: %s", err, out)
	}
	return string(out)
}

// keepers are what rotates logs without burstlet: files and processes.
func (h *containerdHost) keepers() []string {
	found := h.matches(podsOnHost + "/.keeper-*")
	for _, file := range h.matches("/proc/[0-9]*/cmdline") {
		if words, err := os.ReadFile(file); err == nil && strings.Contains(string(words), "\x00--rotate\x00") {
			found = append(found, file)
		}
	}
	return found
}

// matches are files of the host.
func (h *containerdHost) matches(pattern string) []string {
	found, err := filepath.Glob(h.Path(pattern))
	if err != nil {
		return []string{err.Error()}
	}
	return found
}

// logDir is where the logs of a pod's container are, on its host.
func (h *containerdHost) logDir(uid string) string {
	for _, dir := range h.matches(logsOnHost + "/*_" + uid + "/app") {
		return strings.TrimPrefix(dir, h.Path(""))
	}
	return ""
}

type logSizes struct {
	now, all int64
	newest   string // of the files that were rotated
}

// logSizes are those of the log of a pod's only container.
func (h *containerdHost) logSizes(uid string) (s logSizes, err error) {
	for _, file := range h.matches(h.logDir(uid) + "/*") {
		info, err := os.Stat(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // it was compressed or removed
		}
		if err != nil {
			return s, err
		}
		s.all += info.Size()
		if strings.HasSuffix(file, ".log") {
			s.now = info.Size()
		} else {
			s.newest = strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".tmp"), ".gz")
		}
	}
	return s, nil
}
