package ecs

import (
	"math"
	"path"
	"strconv"
	"strings"
	"time"
)

// never is an instant that does not come.
const never = time.Duration(math.MaxInt64)

// Exit codes of a process that a signal ended.
const (
	exitTerm = 143
	exitKill = 137
)

// outcome is how a container ends.
type outcome struct {
	// after is when it exits by itself, from its start.
	after time.Duration
	// exit is its code then.
	exit int32
	// ignoresTerm is true if only SIGKILL ends it.
	ignoresTerm bool
	// termExit is its code after SIGTERM.
	termExit int32
	// oom is true if it ends for want of memory.
	oom bool
}

// behaviour is what a container does, read from its command.
type behaviour struct {
	outcome
	prints
	// phases are what health checks see of it; none: always well.
	phases []phase
	// plain is true of a program without a handler of SIGTERM.
	plain bool
}

// asFirst is what a program does that is the first process of its container: the kernel
// gives that one no signal that it does not handle, but for SIGKILL (pid_namespaces(7)).
func (b *behaviour) asFirst() *behaviour {
	if !b.plain || b.ignoresTerm {
		return b
	}
	own := *b // what it does is shared by tasks
	own.ignoresTerm = true
	return &own
}

// interpret reads the last words of an argv:
//
//	true, false           exit 0 or 1 at once
//	sleep N               exit 0 after N seconds
//	echo TEXT             exit 0 at once, with a line in the log
//	sh -c "SCRIPT"        what script says
//
// Anything else runs until it is stopped and exits 143 on SIGTERM, and so do these unless
// they are the first process of their container and do not handle it.
func interpret(argv []string) behaviour {
	n := len(argv)
	if n >= 2 && argv[n-2] == "-c" {
		return script(argv[n-1])
	}
	b := behaviour{outcome: outcome{after: never, termExit: exitTerm}}
	if n >= 1 && path.Base(argv[0]) == "echo" {
		b.after = 0
		b.once = []printed{{text: strings.Join(argv[1:], " "), n: 1}}
		return b
	}
	if n >= 2 && path.Base(argv[n-2]) == "sleep" {
		if d, ok := seconds(argv[n-1]); ok {
			b.after, b.plain = d, true
		}
		return b
	}
	if n >= 1 {
		switch path.Base(argv[n-1]) {
		case "true":
			b.after = 0
		case "false":
			b.after, b.exit = 0, 1
		}
	}
	return b
}

func seconds(s string) (time.Duration, bool) {
	if s == "infinity" || s == "inf" {
		return never, true
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f < 0 {
		return 0, false
	}
	if f > float64(never)/float64(time.Second) {
		return never, true
	}
	return time.Duration(f * float64(time.Second)), true
}

// sum adds durations, never being absorbing.
func sum(a, b time.Duration) time.Duration {
	if a == never || b == never || a > never-b {
		return never
	}
	return a + b
}
