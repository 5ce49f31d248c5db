package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/logs"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// printed is what a command printed, and its exit code.
type printed struct {
	out, err string
	code     int
}

// commandTimeout bounds one command of kubectl.
const commandTimeout = patience

// kubectl runs kubectl in the namespace of the row, with input.
func (l *life) kubectl(stdin string, args ...string) printed {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), commandTimeout)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := l.command(ctx, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	return l.ended(ctx, cmd.Run(), cmd, &out, &errs)
}

// types runs kubectl with an input that does not end before kubectl does. Runtimes
// let go of a container's output at the end of the input.
func (l *life) types(stdin string, args ...string) printed {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), commandTimeout)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := l.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	keys, err := cmd.StdinPipe() // which Wait closes
	l.must(err)
	l.must(cmd.Start())
	if _, err := io.WriteString(keys, stdin); err != nil {
		l.Errorf("type %q: %v", stdin, err)
	}
	return l.ended(ctx, cmd.Wait(), cmd, &out, &errs)
}

// ended is what a kubectl printed that ended in time, with whichever exit code.
func (l *life) ended(ctx context.Context, err error, cmd *exec.Cmd, out, errs *bytes.Buffer) printed {
	l.Helper()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		l.Fatalf("%s: %v %v: %s", strings.Join(cmd.Args, " "), err, ctx.Err(), errs.String())
	}
	return printed{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// begun is a kubectl that goes on beside the row, until that ends at the latest.
type begun struct {
	out, errs logs.Buffer
	done      chan struct{} // closed when it has ended
	err       error         // how; valid once done is closed
}

func (l *life) begin(args ...string) *begun {
	l.Helper()
	ctx, cancel := context.WithCancel(l.Context())
	cmd, b := l.command(ctx, args...), &begun{done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &b.out, &b.errs
	if err := cmd.Start(); err != nil {
		cancel()
		l.Fatal(err)
	}
	go func() {
		b.err = cmd.Wait()
		close(b.done)
	}()
	l.Cleanup(func() {
		cancel()
		<-b.done
	})
	return b
}

// by waits for the end, which must come by then.
func (b *begun) by(t *testing.T, limit time.Time) error {
	t.Helper()
	select {
	case <-b.done:
		return b.err
	case <-time.After(time.Until(limit)):
		t.Fatalf("kubectl has not ended; it printed %q and says %q", b.out.String(), b.errs.String())
		return nil
	}
}

func (l *life) command(ctx context.Context, args ...string) *exec.Cmd {
	return l.c.Command(ctx, append([]string{"-n", l.namespace}, args...)...)
}

// prints wants an output of a command that succeeds.
func (l *life) prints(want string, args ...string) {
	l.Helper()
	if got := l.kubectl("", args...); got.code != 0 || got.out != want {
		l.Errorf(
			"kubectl %s prints %q, exits with %d and says %q; want %q", strings.Join(args, " "), got.out, got.code, got.err,
			want,
		)
	}
}

// comesToPrint waits for it: containers write some time after their start, and the
// logs of tasks come later.
func (l *life) comesToPrint(want string, args ...string) {
	l.Helper()
	wait.For(l.T, patience, "kubectl "+strings.Join(args, " "), func() error {
		if got := l.kubectl("", args...); got.code != 0 || got.out != want {
			return fmt.Errorf("it prints %q, exits with %d and says %q; want %q", got.out, got.code, got.err, want)
		}
		return nil
	})
}

// verbs are those of kubectl that end at a node.
var verbs = []row[*life]{
	{"logs", kubectlLogs},
	{"logs of the container before", kubectlLogsPrevious},
	{"exec", kubectlExec},
	{"exec in a terminal", kubectlExecTTY},
	{"attach", kubectlAttach},
	{"attach with input", kubectlAttachInput},
	{"port-forward", kubectlPortForward},
	{"cp", kubectlCp},
	{"debug", kubectlDebug},
	{"what is not there", kubectlErrors},
}

// TestKubectl: the verbs of kubectl, through the API server, on a simulated
// remote in a process of its own. TestHost has them on a host over SSH.
func TestKubectl(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, waiter, 75*time.Second)
	allVerbs(t, "kubectl", newSimProcess(t).section(), "simulated container %s: no process runs\n")
}

// allVerbs runs them on one node. Every log begins with preface.
func allVerbs(t *testing.T, name, section, preface string) {
	t.Helper()
	c := theCluster(t)
	n := newNode(t, c, name, section)
	n.run()
	together(t, verbs, row[*life].title, func(t *testing.T, v row[*life]) {
		l := &life{T: t, c: c, n: n, namespace: c.namespace(t, name+"-"+strings.ReplaceAll(v.name, " ", "-"))}
		l.remote.preface = preface
		v.run(l)
	})
}

// webServer answers "ok" on port 8080.
func (l *life) webServer() []string {
	if l.remote.preface != "" {
		return []string{"httpd", "-p", "8080"} // the simulation's own
	}
	return []string{"sh", "-c", "mkdir -p /tmp/www && echo ok >/tmp/www/index.html && exec httpd -f -p 8080 -h /tmp/www"}
}

// preface begins the log of a container.
func (l *life) preface(container string) string {
	if l.remote.preface == "" {
		return ""
	}
	return fmt.Sprintf(l.remote.preface, container)
}

func kubectlLogs(l *life) {
	l.create(l.pod([]string{"sh", "-c", "echo one; echo two; sleep 10; echo three; sleep 3"}, func(pod *corev1.Pod) {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	}))
	l.until("the pod runs, or has run", func(pod *corev1.Pod) error {
		if phase := pod.Status.Phase; phase != corev1.PodRunning && phase != corev1.PodSucceeded {
			return fmt.Errorf("phase %s (%s)", phase, states(&pod.Status))
		}
		return nil
	})
	l.prints(l.preface("app")+"one\ntwo\nthree\n", "logs", "-f", "subject") // ends with the container
	l.prints(l.preface("app")+"one\ntwo\nthree\n", "logs", "subject")
	l.prints("three\n", "logs", "--tail=1", "subject")
	l.prints("", "logs", "--tail=0", "subject")
	l.prints((l.preface("app") + "one\n" + "two\n")[:5], "logs", "--limit-bytes=5", "subject")
	l.prints(l.preface("app")+"one\ntwo\nthree\n", "logs", "--since=1h", "subject")

	stamped := l.kubectl("", "logs", "--timestamps", "--tail=2", "subject").out
	lines := strings.Split(strings.TrimSuffix(stamped, "\n"), "\n")
	if len(lines) != 2 {
		l.Fatalf("with timestamps: %q", stamped)
	}
	at, text, _ := strings.Cut(lines[1], " ")
	when, err := time.Parse(time.RFC3339Nano, at)
	if err != nil || text != "three" || time.Since(when) > 10*patience {
		l.Errorf("with timestamps: %q: %v", lines[1], err)
	}
	// Of ten seconds two lines are older than one.
	l.prints("three\n", "logs", "--since-time="+when.Add(-time.Second).Format(time.RFC3339), "subject")
	l.prints("[pod/subject/app] three\n", "logs", "--tail=1", "--prefix", "--all-containers", "subject")
}

func kubectlLogsPrevious(l *life) {
	l.create(l.pod([]string{"sh", "-c", "echo attempt; sleep 1; exit 1"}))
	l.until("the container was restarted", func(pod *corev1.Pod) error {
		if s, err := app(&pod.Status); err != nil || s.RestartCount < 1 {
			return fmt.Errorf("%s %w", states(&pod.Status), err)
		}
		return nil
	})
	l.comesToPrint(l.preface("app")+"attempt\n", "logs", "--previous", "subject")
}

func kubectlExec(l *life) {
	l.create(l.pod(forever))
	l.until("the pod is Ready", isReady)
	l.prints("hello\n", "exec", "subject", "--", "echo", "hello")
	l.prints("hello\n", "exec", "subject", "-c", "app", "--", "sh", "-c", "echo hello")
	for _, tt := range []struct {
		stdin string
		args  []string
		want  printed
	}{
		{"from here\n", []string{"exec", "-i", "subject", "--", "cat"}, printed{out: "from here\n"}},
		{
			strings.Repeat("0123456789\n", 50000),
			[]string{"exec", "-i", "subject", "--", "cat"},
			printed{out: strings.Repeat("0123456789\n", 50000)},
		},
		{"", []string{"exec", "subject", "--", "sh", "-c", "echo out; echo err >&2"}, printed{out: "out\n", err: "err\n"}},
		{"", []string{"exec", "subject", "--", "sh", "-c", "echo gone; exit 7"}, printed{
			out: "gone\n", err: "command terminated with exit code 7\n", code: 7,
		}},
	} {
		if got := l.kubectl(tt.stdin, tt.args...); got != tt.want {
			l.Errorf("kubectl %s: %.200q, want %.200q", strings.Join(tt.args, " "), fmt.Sprint(got), fmt.Sprint(tt.want))
		}
	}
	if got := l.kubectl("", "exec", "subject", "--", "no-such-program"); got.code == 0 ||
		!strings.Contains(got.err, "no-such-program") {
		l.Errorf("a program that is not there: %+v", got)
	}
}

func kubectlPortForward(l *life) {
	l.create(l.pod(l.webServer(), func(pod *corev1.Pod) {
		pod.Spec.Containers[0].ReadinessProbe = every(1, 1, httpGet(8080)) // it listens some time after its start
	}))
	l.until("the pod is Ready", isReady)
	s := l.begin("port-forward", "pod/subject", ":8080", ":8081")
	forwarding := regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+) -> (\d+)`)
	local := map[string]string{}
	wait.For(l.T, patience, "both ports are forwarded", func() error {
		for _, m := range forwarding.FindAllStringSubmatch(s.out.String(), -1) {
			local[m[2]] = m[1]
		}
		if len(local) < 2 {
			return fmt.Errorf("kubectl prints %q and %q", s.out.String(), s.errs.String())
		}
		return nil
	})
	client := &http.Client{Timeout: commandTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	for range 3 { // connections of one kubectl
		resp, err := client.Get("http://" + local["8080"] + "/")
		if err != nil {
			l.Fatalf("%v; kubectl says %q", err, s.errs.String())
		}
		body, err := io.ReadAll(resp.Body)
		l.must(errors.Join(err, resp.Body.Close()))
		if resp.StatusCode != http.StatusOK || string(body) != "ok\n" {
			l.Errorf("through the forwarded port: %s %q", resp.Status, body)
		}
	}
	if _, err := client.Get("http://" + local["8081"] + "/"); err == nil {
		l.Error("a port on which nothing listens answers")
	}
	wait.For(l.T, patience, "kubectl tells of the refused connection", func() error {
		if !strings.Contains(s.errs.String(), "refused") {
			return fmt.Errorf("it says %q", s.errs.String())
		}
		return nil
	})
}

func kubectlCp(l *life) {
	l.create(l.pod(forever, mount("data", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})))
	l.until("the pod is Ready", isReady)
	dir := l.TempDir()
	there, back := filepath.Join(dir, "there"), filepath.Join(dir, "back")
	l.must(os.Mkdir(there, 0o755))
	files := map[string]string{
		"one.txt": "one\n", "two words.txt": "two\n", "large": strings.Repeat("0123456789abcdef", 20000), "empty": "",
	}
	for name, data := range files {
		l.must(os.WriteFile(filepath.Join(there, name), []byte(data), 0o600))
	}
	l.prints("", "cp", filepath.Join(there, "one.txt"), "subject:/data/one")
	l.prints("one\n", "exec", "subject", "--", "cat", "/data/one")
	l.prints("", "cp", there, "subject:/data/tree")
	if got := l.kubectl("", "cp", "subject:/data/tree", back); got.code != 0 {
		l.Fatalf("copy back: %+v", got)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(back, name))
		if err != nil || string(got) != want {
			l.Errorf("%s came back with %d bytes, want %d: %v", name, len(got), len(want), err)
		}
	}
	// kubectl may leave before tar has said what is wrong.
	none := filepath.Join(dir, "none")
	got := l.kubectl("", "cp", "subject:/data/none", none)
	if _, err := os.Stat(none); !errors.Is(err, os.ErrNotExist) {
		l.Errorf("copy what is not there: %+v makes a file: %v", got, err)
	}
}

func kubectlDebug(l *life) {
	l.create(l.pod(forever))
	l.until("the pod is Ready", isReady)
	got := l.kubectl("", "debug", "subject", "--image="+
		imageOf, "--image-pull-policy=IfNotPresent", "--target=app", "-c", "helper",
		"--profile=general", "--", "sh", "-c", "echo debugging; sleep 1000")
	if got.code != 0 {
		l.Fatalf("debug: %+v", got)
	}
	l.until("the ephemeral container runs", func(pod *corev1.Pod) error {
		for _, s := range pod.Status.EphemeralContainerStatuses {
			if s.Name == "helper" && s.State.Running != nil {
				return nil
			}
		}
		return fmt.Errorf("ephemeral containers: %v", pod.Status.EphemeralContainerStatuses)
	})
	l.comesToPrint(l.preface("helper")+"debugging\n", "logs", "-c", "helper", "subject")
	l.prints("inside\n", "exec", "-c", "helper", "subject", "--", "echo", "inside")

	// With -i kubectl attaches, to a shell that is told what to do. It takes its time: while a
	// container's end closes one output, containerd lets go of the other (ContainerIO.Attach),
	// with what was written just before; and it passes input on before it listens to output.
	told := l.types("sleep 1\necho by the helper\nsleep 1\nexit 0\n", "debug", "-i", "subject", "--image="+
		imageOf, "--image-pull-policy=IfNotPresent",
		"--target=app", "-c", "shell", "--profile=general", "--", "sh")
	if told.code != 0 || !strings.Contains(told.out, "by the helper\n") {
		l.Errorf("debug -i: %+v", told)
	}
	pod := l.until("the second ephemeral container ended", func(pod *corev1.Pod) error {
		for _, s := range pod.Status.EphemeralContainerStatuses {
			if s.Name == "shell" && s.State.Terminated != nil && s.State.Terminated.ExitCode == 0 {
				return nil
			}
		}
		return fmt.Errorf("ephemeral containers: %v", pod.Status.EphemeralContainerStatuses)
	})
	if err := isReady(pod); err != nil {
		l.Errorf("the pod suffers: %v", err)
	}
}

// kubectlErrors: what kubectl says where something is missing.
func kubectlErrors(l *life) {
	l.create(l.pod(forever))
	l.until("the pod is Ready", isReady)
	waiting := l.pod(forever, func(pod *corev1.Pod) {
		pod.Name, pod.Spec.Containers[0].Image = "waiting", missingImage
	})
	l.create(waiting)
	wait.Pod(l, l.c.client, l.namespace, "waiting", patience, "waits for its image", phaseIs(corev1.PodPending, pullFails))
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"logs", "--previous", "subject"}, `previous terminated container "app" in pod "subject" not found`},
		{[]string{"logs", "-c", "other", "subject"}, "container other is not valid for pod subject"},
		{[]string{"logs", "waiting"}, `container "app" in pod "waiting" is waiting to start`},
		{[]string{"exec", "waiting", "--", "true"}, "container not found (\"app\")"},
		{[]string{"exec", "-c", "other", "subject", "--", "true"}, "container other"},
		{[]string{"attach", "waiting"}, "app"},
		{[]string{"port-forward", "waiting", ":8080"}, "pod is not running"},
	} {
		got := l.kubectl("", tt.args...)
		if got.code == 0 || !strings.Contains(got.err, tt.want) {
			l.Errorf(
				"kubectl %s exits with %d and says %q, want it to say %q", strings.Join(tt.args, " "), got.code, got.err, tt.want,
			)
		}
	}
}
