package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// containerLogs is where log collectors look, on every node of Kubernetes.
const containerLogs = "/var/log/containers"

// logLink is fluent-bit's expression for the links there (the filter kubernetes).
var logLink = regexp.MustCompile(
	`^([a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*)_([^_]+)_(.+)-([a-z0-9]{64})\.log$`,
)

// source is whose a log is, as its link's name says.
type source struct{ pod, namespace, container, id string }

// collector reads the logs of a host as fluent-bit's tail does: it finds links now
// and then, follows the file behind each by its inode, goes on reading one that was
// renamed, and joins the parts of lines (F and P of the CRI's format).
type collector struct {
	t *testing.T
	h *containerdHost
	// tails are by the name of the link.
	tails map[string]*tailed
	// lines are those of each container of a pod, "pod/container", in order; files
	// is how many they were in.
	lines map[string][]string
	files map[string]int
}

// tailed is one link that is followed.
type tailed struct {
	source source
	// files are those that were behind it, the newest last, and read is what was
	// read of each: the writer leaves an old one some time after the new one is there.
	files []*os.File
	read  [][]byte
	parts string // of a line that is not whole yet
}

func (s source) String() string { return s.pod + "/" + s.container }

// collect starts to read and returns what ends it, after one last look, and
// returns all lines and in how many files they were.
func collect(t *testing.T, h *containerdHost) (stop func() (lines map[string][]string, files map[string]int)) {
	t.Helper()
	c := &collector{t: t, h: h, tails: map[string]*tailed{}, lines: map[string][]string{}, files: map[string]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		every := time.NewTicker(time.Second)
		defer every.Stop()
		for ctx.Err() == nil {
			c.look()
			select {
			case <-ctx.Done():
			case <-every.C:
			}
		}
	}()
	end := func() {
		cancel()
		<-done
	}
	t.Cleanup(end)
	return func() (map[string][]string, map[string]int) {
		end()
		c.look()
		for _, tail := range slices.SortedFunc(maps.Values(c.tails), olderFirst) {
			c.finish(tail)
		}
		return c.lines, c.files
	}
}

// look finds links, and reads what is new behind all of them.
func (c *collector) look() {
	links, err := os.ReadDir(c.h.Path(containerLogs))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // as it is before the first pod
		c.t.Errorf("list the links: %v", err)
		return
	}
	for _, link := range links {
		if c.tails[link.Name()] != nil {
			continue
		}
		m := logLink.FindStringSubmatch(link.Name())
		if m == nil || link.Type() != fs.ModeSymlink {
			c.t.Errorf("%s is no link to a container's log", link.Name())
			continue
		}
		c.tails[link.Name()] = &tailed{source: source{pod: m[1], namespace: m[2], container: m[3], id: m[4]}}
	}
	for name, tail := range c.tails {
		c.follow(name, tail)
	}
}

// follow opens the file that has the name now, if it is another, and reads on in all.
func (c *collector) follow(name string, tail *tailed) {
	path, err := c.target(name)
	if err == nil {
		err = tail.open(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // between two files, or gone
		c.t.Error(err)
	}
	for i, f := range tail.files {
		data, err := io.ReadAll(f)
		if err != nil {
			c.t.Errorf("read the log of %v: %v", tail.source, err)
		}
		tail.read[i] = append(tail.read[i], data...)
	}
}

// target is where the file behind a link is found on this machine. Links are
// absolute, in the host.
func (c *collector) target(name string) (string, error) {
	path := filepath.Join(containerLogs, name)
	for range 5 {
		target, err := os.Readlink(c.h.Path(path))
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return "", err
			}
			return c.h.Path(path), nil // a file, at last
		}
		if !filepath.IsAbs(target) {
			return "", fmt.Errorf("link %s leads to %s, which is not absolute", name, target)
		}
		path = target
	}
	return "", fmt.Errorf("link %s leads in circles", name)
}

// open opens the file that is at a path unless it is the last one.
func (tail *tailed) open(path string) error {
	next, err := os.Open(path)
	if err != nil {
		return err
	}
	if len(tail.files) > 0 {
		a, errA := tail.files[len(tail.files)-1].Stat()
		b, errB := next.Stat()
		if err := errors.Join(errA, errB); err != nil || os.SameFile(a, b) {
			return errors.Join(err, next.Close())
		}
	}
	tail.files, tail.read = append(tail.files, next), append(tail.read, nil)
	return nil
}

// olderFirst orders the runs of a container by their first records.
func olderFirst(a, b *tailed) int { return bytes.Compare(a.first(), b.first()) }

func (tail *tailed) first() []byte {
	for _, read := range tail.read {
		if len(read) > 0 {
			return read
		}
	}
	return nil
}

// finish takes all records that were read.
func (c *collector) finish(tail *tailed) {
	for i, f := range tail.files {
		for record := range strings.Lines(string(tail.read[i])) {
			c.take(tail, strings.TrimSuffix(record, "\n"))
		}
		_ = f.Close() // it was only read
		c.files[tail.source.String()]++
	}
	if n := len(tail.read); tail.parts != "" || n > 0 && len(tail.read[n-1]) > 0 &&
		!bytes.HasSuffix(tail.read[n-1], []byte("\n")) {
		c.t.Errorf("the log of %v ends within a line: %.200q", tail.source, tail.parts)
	}
}

// take takes one record: time, stream, tag and content.
func (c *collector) take(tail *tailed, record string) {
	fields := strings.SplitN(record, " ", 4)
	if len(fields) != 4 || fields[1] != "stdout" && fields[1] != "stderr" || fields[2] != "F" && fields[2] != "P" {
		c.t.Errorf("a record of %v is not in the CRI's format: %.200q", tail.source, record)
		return
	}
	if _, err := time.Parse(time.RFC3339Nano, fields[0]); err != nil {
		c.t.Errorf("a record of %v: %v", tail.source, err)
	}
	tail.parts += fields[3]
	if fields[2] == "P" {
		return
	}
	key := tail.source.String()
	c.lines[key] = append(c.lines[key], tail.parts)
	tail.parts = ""
}

// writer is a pod that writes lines, and which they are.
type writer struct {
	name   string
	script string
	// policy is the restart policy; want is the state that it comes to.
	policy corev1.RestartPolicy
	want   func(*corev1.Pod) error
	// change is more about the pod.
	change func(*corev1.Pod)
	// lines are those of each container, in order.
	lines map[string][]string
}

// filler makes a line long enough that a few hundred are more than a log may have.
var filler = strings.Repeat("x", 80)

// numbered are the lines "what 1" to "what n".
func numbered(what string, n int) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprintf("%s %d %s", what, i+1, filler))
	}
	return lines
}

// write is the part of a script that writes the next numbered line, and pauses for a
// second after so many.
func write(what string, atOnce int) string {
	return fmt.Sprintf("i=$((i+1)); echo \"%s $i %s\"; [ $((i %% %d)) != 0 ] || sleep 1; ", what, filler, atOnce)
}

// whole is a line that is longer than what a runtime writes as one record.
var whole = strings.Repeat("0123456789abcdef", 3000)

// writers are the pods that TestLogCollector reads.
func writers() []writer {
	again := numbered("again", 50)
	return []writer{
		{
			// Slow enough that a collector is there for every file. It says at its end how
			// many lines there are.
			name: "long", policy: corev1.RestartPolicyNever, want: succeeded,
			script: "until [ -e " + enough + " ]; do " + write("long", 50) + "done; echo $i >/dev/termination-log",
			lines:  map[string][]string{"app": nil},
		},
		{
			name: "again", policy: corev1.RestartPolicyAlways, want: restartedTwice,
			change: readyWhen("[ -e /count/done ]"),
			// Each run lasts much longer than a collector's look, as its log goes when the
			// next run ends (kubelet: one dead instance is kept).
			script: "while [ $((i+0)) -lt 50 ]; do " + write("again", 5) +
				"done; n=$(cat /count/n 2>/dev/null); [ ${#n} = 2 ] && touch /count/done && sleep 1000; printf x >>/count/n; " +
				"exit 1",
			lines: map[string][]string{"app": slices.Concat(again, again, again)},
		},
		{
			name: "short.lived", policy: corev1.RestartPolicyNever, want: succeeded,
			script: "echo to stderr >&2; echo to stdout; true",
			lines:  map[string][]string{"app": nil}, // the order of two streams is anyone's
		},
		{
			name: "wide", policy: corev1.RestartPolicyNever, want: succeeded,
			script: "echo before; i=0; while [ $i -lt 3000 ]; do printf 0123456789abcdef; i=$((i+1)); done; echo; echo; " +
				"echo after",
			lines: map[string][]string{"app": {"before", whole, "", "after"}},
		},
	}
}

// succeeded is nil for a pod that did.
func succeeded(pod *corev1.Pod) error {
	return phaseIs(corev1.PodSucceeded)(pod)
}

// restartedTwice is nil for a pod that is Ready in its third run.
func restartedTwice(pod *corev1.Pod) error {
	s, err := app(&pod.Status)
	if err != nil {
		return err
	}
	if s.RestartCount != 2 {
		return fmt.Errorf("%s", states(&pod.Status))
	}
	return isReady(pod)
}

// TestLogCollector: a reader of /var/log/containers on the host finds every line of
// every pod, once, with its pod, across restarts and rotations; kubectl logs --follow
// shows every line across rotations too, and --previous those before a restart.
func TestLogCollector(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, waiter, 80*time.Second)
	c := theCluster(t)
	h := newContainerdHost(t)
	n := newNode(t, c, "collector", h.section("containerLogMaxSize: 100Ki", "containerLogMaxFiles: 3"))
	n.run()
	l := &life{T: t, c: c, n: n, namespace: c.namespace(t, "collector"), remote: remote{mounts: true}}
	stop := collect(t, h)
	for _, w := range writers() {
		l.create(l.pod([]string{"sh", "-c", w.script}, mount(
			"count", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		),
			func(pod *corev1.Pod) {
				pod.Name, pod.Spec.RestartPolicy = w.name, w.policy
				if w.change != nil {
					w.change(pod)
				}
			}))
	}
	followed := l.follow("long")
	wait.For(t, 2*patience, "the log of the long one is in three files", func() error {
		found, err := filepath.Glob(h.Path(logsOnHost + "/*_long_*/app/*"))
		files := map[string]bool{} // one that is compressed may be there twice
		for _, file := range found {
			files[strings.TrimSuffix(strings.TrimSuffix(file, ".tmp"), ".gz")] = true
		}
		if err == nil && len(files) < 3 {
			err = fmt.Errorf("there are %q", found)
		}
		return err
	})
	l.prints("", "exec", "long", "--", "touch", enough)
	for _, w := range writers() {
		l.comes(w.name, 2*patience, w.want)
	}
	got, files := stop()
	if files["long/app"] < 3 {
		t.Errorf("the log of the long one had %d files, want rotations", files["long/app"])
	}
	long := numbered("long", l.count("long"))
	same(t, "long/app", got["long/app"], long)
	for _, w := range writers() {
		for container, lines := range w.lines {
			if lines != nil {
				same(t, w.name+"/"+container, got[w.name+"/"+container], lines)
			}
		}
	}
	if lines := got["short.lived/app"]; len(lines) != 2 ||
		!has(strings.Join(lines, "\n"), []string{"to stderr", "to stdout"}) {
		t.Errorf("of both streams of a short life there is %q", lines)
	}
	if pods := len(writers()); len(got) != pods {
		t.Errorf("there are lines of %d containers, want %d", len(got), pods)
	}
	same(t, "kubectl logs --follow", <-followed, long)
	before := l.kubectl("", "logs", "--previous", "again")
	same(t, "kubectl logs --previous", strings.Split(strings.TrimSuffix(before.out, "\n"), "\n"), numbered("again", 50))
}

// follow runs kubectl logs --follow until it ends by itself, and sends the lines
// that it printed.
func (l *life) follow(pod string) <-chan []string {
	l.Helper()
	l.comes(pod, patience, phaseIs(corev1.PodRunning))
	b, printed := l.begin("logs", "--follow", pod), make(chan []string, 1)
	go func() {
		<-b.done
		lines := strings.Split(strings.TrimSuffix(b.out.String(), "\n"), "\n")
		if b.err != nil && l.Context().Err() == nil {
			l.Errorf("kubectl logs --follow, after %d lines: %v: %s", len(lines), b.err, b.errs.String())
		}
		printed <- lines
	}()
	return printed
}

// count is the number that a pod left at its end.
func (l *life) count(pod string) int {
	l.Helper()
	now, err := l.pods().Get(l.Context(), pod, metav1.GetOptions{})
	l.must(err)
	n, err := strconv.Atoi(strings.TrimSpace(now.Status.ContainerStatuses[0].State.Terminated.Message))
	l.must(err)
	return n
}

// comes waits until a pod is so.
func (l *life) comes(name string, within time.Duration, want func(*corev1.Pod) error) {
	l.Helper()
	wait.Pod(l, l.c.client, l.namespace, name, within, "gets there", want)
}

// same compares lines and says where they first differ.
func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("%s: line %d of %d is %.60q, want %.60q", what, i+1, len(got), got[i], want[i])
			return
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d lines, want %d", what, len(got), len(want))
	}
}
