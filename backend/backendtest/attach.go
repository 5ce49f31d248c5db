package backendtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/burstlet/burstlet/backend"
)

// attachable is a running container whose pod was edited.
func (s *suite) attachable(p program, edit func(*corev1.Container)) (ref backend.Ref, c backend.ContainerRef, ok bool) {
	s.Helper()
	pod := s.pod(p)
	if edit != nil {
		edit(&pod.Spec.Containers[0])
	}
	if s.refuses(pod) {
		return ref, c, false
	}
	ref = s.run(pod, 0)
	return ref, s.facts(s.awaitRunning(ref), "c0", 0).Ref(ref), true
}

// attachOutput: one attachment only listens, another one types what the program
// repeats, until it is heard: it then goes on to its end.
func attachOutput(s *suite) {
	script := "echo before; cat; echo after; echo error >&2; sleep 1; echo last; exit 3"
	ref, c, ok := s.attachable(
		program{"sh", "-c", script}, func(c *corev1.Container) { c.Stdin, c.StdinOnce = true, true },
	)
	if !ok {
		return
	}
	s.awaitLog(c, "before")
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	var out, errs screen
	listening := s.call(func() error {
		return s.Attach.Attach(ctx, c, backend.AttachSpec{Stdout: &out, Stderr: &errs})
	})
	keys := newKeyboard()
	defer keys.close()
	typing := s.call(func() error {
		return s.Attach.Attach(ctx, c, backend.AttachSpec{Stdin: keys, Stdout: &screen{}})
	})
	s.typeUntil(keys, &out, listening, "again", "again\n")
	keys.close()
	err := s.ended(listening, "an attachment to what has ended")
	after := strings.ReplaceAll(out.String(), "again\n", "")
	if err != nil || after != "after\nlast\n" || errs.String() != "error\n" {
		s.Errorf("attached after the first line: %q, %q, %v", out.String(), errs.String(), err)
	}
	if err := s.ended(typing, "an attachment that types"); err != nil {
		s.Errorf("an attachment that types: %v", err)
	}
	s.wantExit(s.awaitExited(ref), "c0", 3)
}

// attachInput: with stdinOnce the program's input ends with that of the first
// that attaches, and it with its program. The input ends when all of it came back:
// containerd may cut off what a program has not read by then (its issue 12734).
func attachInput(s *suite) {
	ref, c, ok := s.attachable(
		program{"sh", "-c", "cat; exit 5"}, func(c *corev1.Container) { c.Stdin, c.StdinOnce = true, true },
	)
	if !ok {
		return
	}
	var out screen
	keys := newKeyboard()
	defer keys.close()
	done := s.call(func() error {
		return s.Attach.Attach(s.Context(), c, backend.AttachSpec{Stdin: keys, Stdout: &out})
	})
	// What the program repeats before its output is attached as well is lost.
	s.typeUntil(keys, &out, done, "begun", "begun\n")
	in := strings.Repeat("a line of some length\n", 5000) + "end"
	keys.line(in)
	s.eventually("the input comes back", func() error {
		if got := strings.ReplaceAll(out.String(), "begun\n", ""); got != in+"\n" {
			return fmt.Errorf("of %d bytes %d came back", len(in)+1, len(got))
		}
		return nil
	})
	keys.close()
	if err := s.ended(done, "an attachment to what has ended"); err != nil {
		s.Errorf("a container whose input has ended: %v", err)
	}
	s.wantExit(s.awaitExited(ref), "c0", 5)
}

// attachAgain: without stdinOnce one attachment after the other is heard.
func attachAgain(s *suite) {
	_, c, ok := s.attachable(program{"cat"}, func(c *corev1.Container) { c.Stdin = true })
	if !ok {
		return
	}
	for _, line := range []string{"one", "two"} {
		var out screen
		keys := newKeyboard()
		ctx, cancel := context.WithCancel(s.Context())
		done := s.call(func() error {
			return s.Attach.Attach(ctx, c, backend.AttachSpec{Stdin: keys, Stdout: &out})
		})
		if !s.typeUntil(keys, &out, done, line, line+"\n") {
			s.Fatalf("the attachment that typed %q ended: %v", line, <-done)
		}
		keys.close()
		s.pause(s.f.Poll)
		cancel()
		if err := s.ended(done, "what was given up"); err != nil && !errors.Is(err, context.Canceled) {
			s.Errorf("given up: %v", err)
		}
	}
}

// attachTerminal is "kubectl run -it".
func attachTerminal(s *suite) {
	ref, c, ok := s.attachable(program{"sh"}, func(c *corev1.Container) { c.Stdin, c.TTY = true, true })
	if !ok {
		return
	}
	u := newSession()
	defer u.keys.close()
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	done := s.call(func() error { return s.Attach.Attach(ctx, c, u.streams) })
	if !s.useTerminal(u, done) {
		s.Fatalf("it ended before: %v", <-done)
	}
	u.keys.line("exit 4")
	if err := s.ended(done, "an attachment to what has ended"); err != nil {
		s.Errorf("a container that was left: %v", err)
	}
	s.wantExit(s.awaitExited(ref), "c0", 4)
}

func attachNotRunning(s *suite) {
	ref := s.run(s.pod(succeed), 0)
	ended := s.facts(s.awaitExited(ref), "c0", 0).Ref(ref)
	for what, c := range map[string]backend.ContainerRef{
		"a container that has ended": ended,
		"no such container":          {Pod: ref, Name: "none"},
		"no such pod":                {Pod: backend.Ref{UID: uuid.NewUUID()}, Name: "c0"},
	} {
		var out screen
		s.wantClass(what, s.Attach.Attach(s.Context(), c, backend.AttachSpec{Stdout: &out}), backend.ErrNotFound)
	}
}

func attachContext(s *suite) {
	_, c, _ := s.attachable(untilTerm, nil)
	ctx, cancel := context.WithTimeout(s.Context(), time.Second)
	defer cancel()
	begun := time.Now()
	var out screen
	err := s.Attach.Attach(ctx, c, backend.AttachSpec{Stdout: &out})
	if !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("an attachment whose context ended: %v", err)
	}
	if took := time.Since(begun); took > time.Second+s.f.Eventually/2 {
		s.Errorf("it took %v to see that its context had ended", took-time.Second)
	}
}
