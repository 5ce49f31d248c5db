package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	clientexec "k8s.io/client-go/util/exec"

	"github.com/burstlet/burstlet/test/kit/logs"
	"github.com/burstlet/burstlet/test/kit/need"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// sizes are those of a user's terminal, as it comes to have them.
type sizes chan remotecommand.TerminalSize

// Next waits for the next; nil when there are no more.
func (s sizes) Next() *remotecommand.TerminalSize {
	if size, ok := <-s; ok {
		return &size
	}
	return nil
}

// protocols are those that kubectl speaks: the newer, and what it falls back to.
var protocols = []struct {
	name string
	make func(*rest.Config, *url.URL) (remotecommand.Executor, error)
}{
	{"WebSocket", func(cfg *rest.Config, u *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewWebSocketExecutor(cfg, "GET", u.String())
	}},
	{"SPDY", func(cfg *rest.Config, u *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewSPDYExecutor(cfg, "POST", u)
	}},
}

// session is somebody at a terminal.
type session struct {
	l     *life
	keys  *io.PipeWriter
	out   *logs.Buffer
	sizes sizes
	end   chan error
}

// sit opens a terminal to the container of the row.
func (l *life) sit(executor remotecommand.Executor) *session {
	in, keys := io.Pipe()
	s := &session{l: l, keys: keys, out: &logs.Buffer{}, sizes: make(sizes, 2), end: make(chan error, 1)}
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	s.sizes <- remotecommand.TerminalSize{Width: 100, Height: 40}
	go func() {
		s.end <- executor.StreamWithContext(ctx, remotecommand.StreamOptions{
			Stdin: in, Stdout: s.out, Tty: true, TerminalSizeQueue: s.sizes,
		})
	}()
	l.Cleanup(func() {
		cancel()
		_ = keys.Close() // of a pipe: it never fails
		close(s.sizes)
	})
	return s
}

// asks types a line, once, and waits for what is answered: a line of this kind.
func (s *session) asks(line string, kind *regexp.Regexp) string {
	s.l.Helper()
	before := len(s.out.String())
	if _, err := io.WriteString(s.keys, line+"\n"); err != nil {
		s.l.Fatal(err)
	}
	var answer string
	wait.For(s.l.T, commandTimeout, fmt.Sprintf("%q is answered", line), func() error {
		match := kind.FindStringSubmatch(s.out.String()[before:])
		if match == nil {
			return fmt.Errorf("the screen shows %q", s.out.String())
		}
		answer = match[1]
		return nil
	})
	return answer
}

var (
	aTerminal = regexp.MustCompile(`(?m)^(/dev/pts/\d+)\r?\n`)
	// Of a terminal that has no size yet stty says only which it asked.
	aSize = regexp.MustCompile(`(?m)^(\d+ \d+|stty: standard input)\r?\n`)
)

// comesToHave waits until the terminal has a size, which comes beside what is typed.
// Each time it is asked for is answered.
func (s *session) comesToHave(size string) {
	s.l.Helper()
	wait.For(s.l.T, commandTimeout, "the terminal's size is "+size, func() error {
		if now := s.asks("stty size", aSize); now != size {
			return fmt.Errorf("it is %s", now)
		}
		return nil
	})
}

// leaves ends the session, and wants this exit code.
func (s *session) leaves(line string, code int) {
	s.l.Helper()
	if _, err := io.WriteString(s.keys, line+"\n"); err != nil {
		s.l.Fatal(err)
	}
	err := <-s.end
	var exit clientexec.CodeExitError
	switch {
	case code == 0 && err != nil:
		s.l.Errorf("the session ended with %v", err)
	case code != 0 && (!errors.As(err, &exit) || exit.Code != code):
		s.l.Errorf("the session ended with %v, want exit code %d", err, code)
	}
}

// streams is the URL of a subresource of the row's pod.
func (l *life) streams(subresource string, opts *corev1.PodExecOptions) *url.URL {
	return l.c.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(l.namespace).Name("subject").
		SubResource(subresource).VersionedParams(opts, scheme.ParameterCodec).URL()
}

// kubectlExecTTY: a shell in a terminal that is resized, by both protocols and by
// kubectl itself.
func kubectlExecTTY(l *life) {
	l.create(l.pod(forever))
	l.until("the pod is Ready", isReady)
	for _, p := range protocols {
		l.Run(p.name, func(t *testing.T) {
			row := *l
			row.T = t
			executor, err := p.make(l.c.AdminConfig(), l.streams("exec", &corev1.PodExecOptions{
				Command: []string{"sh"}, Stdin: true, Stdout: true, TTY: true,
			}))
			row.must(err)
			s := row.sit(executor)
			s.asks("tty", aTerminal)
			s.comesToHave("40 100")
			s.sizes <- remotecommand.TerminalSize{Width: 132, Height: 43}
			s.comesToHave("43 132")
			s.leaves("exit 3", 3)
		})
	}
	l.Run("kubectl", func(t *testing.T) {
		script, err := exec.LookPath("script") // of util-linux, which gives kubectl a terminal
		if err != nil {
			need.Missing(t, "no terminal for kubectl: %v", err)
		}
		row := *l
		row.T = t
		ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
		defer cancel()
		line := row.command(ctx, "exec", "-it", "subject", "--", "sh", "-c", "tty; exit 4").String()
		cmd := exec.CommandContext(ctx, script, "-qec", line, "/dev/null")
		keys, err := cmd.StdinPipe() // open, or script would send an end of input
		row.must(err)
		defer keys.Close()
		out, _ := cmd.CombinedOutput() // the exit code is looked at
		if code := cmd.ProcessState.ExitCode(); code != 4 || !strings.Contains(string(out), "/dev/pts/") {
			t.Errorf("%s: exit code %d, %q", line, code, out)
		}
	})
}

// kubectlAttach: what the container writes from now on, to its end. It writes for a
// minute, or until kubectl is there.
func kubectlAttach(l *life) {
	const count = 60
	var script, all strings.Builder
	for i := range count {
		fmt.Fprintf(&script, "echo line %d; test -e /tmp/seen || sleep 1; ", i)
		fmt.Fprintf(&all, "line %d\n", i)
	}
	l.create(l.pod([]string{"sh", "-c", script.String()}, func(pod *corev1.Pod) {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	}))
	l.until("the pod is Ready", isReady)
	ctx, cancel := context.WithTimeout(l.Context(), commandTimeout)
	defer cancel()
	var stderr strings.Builder
	cmd := l.command(ctx, "attach", "subject")
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	l.must(err)
	l.must(cmd.Start())
	out := bufio.NewReader(stdout)
	got, err := out.ReadString('\n')
	if err == nil {
		l.prints("", "exec", "subject", "--", "touch", "/tmp/seen")
	}
	rest, _ := io.ReadAll(out) // what is missing is seen below
	got += string(rest)
	if err := cmd.Wait(); err != nil || got == "" || !strings.HasSuffix(all.String(), got) {
		l.Errorf("attach: %v, %q, %s; want the end of %q", err, got, &stderr, all.String())
	}
	// The row leaves no pod that is about to end.
	l.until("the pod has ended", succeeded)
}

// kubectlAttachInput: the container's own input, and its terminal.
func kubectlAttachInput(l *life) {
	once := func(pod *corev1.Pod) {
		c := &pod.Spec.Containers[0]
		c.Stdin, c.StdinOnce, pod.Spec.RestartPolicy = true, true, corev1.RestartPolicyNever
	}
	l.create(l.pod([]string{"cat"}, once))
	l.until("the pod is Ready", isReady)
	if got := l.kubectl("to the container\n", "attach", "-i", "subject"); got.code != 0 ||
		!strings.Contains(got.out, "to the container\n") {
		l.Errorf("attach -i: %+v", got)
	}
	l.until("the container has ended with its input", phaseIs(corev1.PodSucceeded, exited(0, "Completed")))
	l.says("app", "to the container")

	l.must(l.pods().Delete(l.Context(), "subject", metav1.DeleteOptions{}))
	l.untilGone("subject")
	l.create(l.pod([]string{"sh"}, once, func(pod *corev1.Pod) { pod.Spec.Containers[0].TTY = true }))
	l.until("the pod with a terminal is Ready", isReady)
	executor, err := protocols[0].make(l.c.AdminConfig(), l.streams("attach", &corev1.PodExecOptions{
		Stdin: true, Stdout: true, TTY: true,
	}))
	l.must(err)
	s := l.sit(executor)
	s.comesToHave("40 100")
	s.leaves("exit 5", 0) // that of the container does not travel
	l.until("the shell has ended with its code", phaseIs(corev1.PodFailed, exited(5, "Error")))
}
