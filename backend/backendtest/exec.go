package backendtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/burstlet/burstlet/backend"
)

// exec runs a command that works, and returns its standard output.
func (s *suite) exec(ref backend.ContainerRef, stdin string, command ...string) (string, int32) {
	s.Helper()
	out, _, code, err := s.execAll(ref, stdin, command...)
	s.must(err)
	return out, code
}

// execAll runs a command, for as long as a step may take.
func (s *suite) execAll(
	ref backend.ContainerRef, stdin string, command ...string,
) (out, errors string, code int32, err error) {
	ctx, cancel := context.WithTimeout(s.Context(), s.f.Eventually)
	defer cancel()
	var o, e bytes.Buffer
	spec := backend.ExecSpec{Command: command, Stdout: &o, Stderr: &e}
	if stdin != "" {
		spec.Stdin = strings.NewReader(stdin)
	}
	code, err = s.Exec.Exec(ctx, ref, spec)
	return o.String(), e.String(), code, err
}

// inside is a running container to run commands in.
func (s *suite) inside() backend.ContainerRef {
	s.Helper()
	pod := s.pod(untilTerm)
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "GREETING", Value: "hello  there"}}
	ref := s.run(pod, 0)
	return s.facts(s.awaitRunning(ref), "c0", 0).Ref(ref)
}

func execOutput(s *suite) {
	c := s.inside()
	for _, tt := range []struct {
		command  program
		out, err string
		code     int32
	}{
		{program{"true"}, "", "", 0},
		{program{"false"}, "", "", 1},
		{exitWith(3), "", "", 3},
		{program{"echo", "a  b", "c"}, "a  b c\n", "", 0},
		{program{"sh", "-c", "echo out; echo err >&2; echo -n more; exit 4"}, "out\nmore", "err\n", 4},
		{program{"sh", "-c", `echo "$GREETING"`}, "hello  there\n", "", 0},
		{program{"test", "-e", "/none"}, "", "", 1},
	} {
		out, stderr, code, err := s.execAll(c, "", tt.command...)
		if err != nil || out != tt.out || stderr != tt.err || code != tt.code {
			s.Errorf("%q: %q, %q, %d, %v, want %q, %q, %d", tt.command, out, stderr, code, err, tt.out, tt.err, tt.code)
		}
	}
	begun := time.Now()
	code, err := s.Exec.Exec(
		s.Context(), c, backend.ExecSpec{Command: program{"sh", "-c", "echo dropped; sleep 1; exit 5"}},
	)
	if took := time.Since(begun); err != nil || code != 5 || took < time.Second {
		s.Errorf("without streams: %d, %v after %v", code, err, took)
	}
}

func execStdin(s *suite) {
	c := s.inside()
	if out, code := s.exec(c, "one\ntwo", "cat"); out != "one\ntwo" || code != 0 {
		s.Errorf("cat: %q, exit code %d", out, code)
	}
	if out, code := s.exec(c, "", "cat"); out != "" || code != 0 {
		s.Errorf("cat of nothing: %q, exit code %d", out, code)
	}
	big := strings.Repeat("0123456789abcdef", 64<<10)
	if out, _ := s.exec(c, big, "cat"); out != big {
		s.Errorf("of %d bytes %d came back", len(big), len(out))
	}
}

func execConcurrently(s *suite) {
	c := s.inside()
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			word := fmt.Sprint("word", i)
			out, _, code, err := s.execAll(c, "", "sh", "-c", fmt.Sprintf("sleep 1; echo %s; exit %d", word, i))
			if err != nil || out != word+"\n" || code != int32(i) {
				errs[i] = fmt.Errorf("command %d: %q, %d, %w", i, out, code, err)
			}
		})
	}
	wg.Wait()
	s.must(errors.Join(errs...))
}

func execNotRunning(s *suite) {
	ref := s.run(s.pod(succeed), 0)
	ended := s.facts(s.awaitExited(ref), "c0", 0).Ref(ref)
	for what, c := range map[string]backend.ContainerRef{
		"a container that has ended": ended,
		"no such container":          {Pod: ref, Name: "none"},
		"no such pod":                {Pod: backend.Ref{UID: uuid.NewUUID()}, Name: "c0"},
	} {
		_, _, _, err := s.execAll(c, "", succeed...)
		s.wantClass(what, err, backend.ErrNotFound)
	}
}

func execInvalid(s *suite) {
	c := s.inside()
	_, _, _, err := s.execAll(c, "", "/no/such/program")
	s.wantClass("a program that is not there", err, backend.ErrInvalid)
	if out, code := s.exec(c, "", "echo", "still"); out != "still\n" || code != 0 {
		s.Errorf("afterwards: %q, %d", out, code)
	}
}

func execContext(s *suite) {
	c := s.inside()
	var out screen
	spec := backend.ExecSpec{Command: program{"sh", "-c", "echo begun; sleep 3600"}, Live: true, Stdout: &out}
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	done := s.call(func() error {
		_, err := s.Exec.Exec(ctx, c, spec)
		return err
	})
	s.eventually("output until then", func() error {
		if text := out.String(); text != "begun\n" {
			return fmt.Errorf("came: %q", text)
		}
		return nil
	})
	cancel()
	if err := s.ended(done, "a command whose context ended"); !errors.Is(err, context.Canceled) {
		s.Errorf("a command whose context ended: %v", err)
	}

	ctx, cancel = context.WithTimeout(s.Context(), time.Second)
	defer cancel()
	begun := time.Now()
	if _, err := s.Exec.Exec(ctx, c, spec); !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("a command whose time is over: %v", err)
	}
	if took := time.Since(begun); took > time.Second+s.f.Eventually/2 {
		s.Errorf("it took %v to see that its context had ended", took-time.Second)
	}
	for _, live := range []bool{false, true} {
		spec := backend.ExecSpec{Command: program{"sleep", "3600"}, Timeout: time.Second, Live: live}
		done := s.call(func() error {
			_, err := s.Exec.Exec(s.Context(), c, spec)
			return err
		})
		err := s.ended(done, "a command with a timeout")
		if !errors.Is(err, context.DeadlineExceeded) || backend.Class(err) != "Transient" {
			s.Errorf("a command with a timeout (live: %v): %s: %v", live, backend.Class(err), err)
		}
	}
}
