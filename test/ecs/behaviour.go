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

// behaviour is what a container does, read from its command.
type behaviour struct {
	// after is when it exits by itself, from its start.
	after time.Duration
	// exit is its code then.
	exit int32
	// ignoresTerm is true if only SIGKILL ends it.
	ignoresTerm bool
	// termExit is its code after SIGTERM.
	termExit int32
}

// interpret reads the last words of an argv:
//
//	true, false           exit 0 or 1 at once
//	sleep N               exit 0 after N seconds
//	sh -c "exit N"        exit N at once
//	sh -c "sleep N; exit M", with "trap '' TERM" (ignores SIGTERM) or
//	                      "trap 'exit K' TERM" (exits K on it) before it
//
// Anything else runs until it is stopped and exits 143 on SIGTERM.
func interpret(argv []string) behaviour {
	forever := behaviour{after: never, termExit: exitTerm}
	n := len(argv)
	if n >= 2 && argv[n-2] == "-c" {
		if b, ok := script(argv[n-1]); ok {
			return b
		}
		forever.ignoresTerm = ignoresTerm(argv[n-1])
		return forever
	}
	if n >= 2 && path.Base(argv[n-2]) == "sleep" {
		if d, ok := seconds(argv[n-1]); ok {
			return behaviour{after: d, termExit: exitTerm}
		}
		return forever
	}
	if n >= 1 {
		switch path.Base(argv[n-1]) {
		case "true":
			return behaviour{termExit: exitTerm}
		case "false":
			return behaviour{exit: 1, termExit: exitTerm}
		}
	}
	return forever
}

// script reads a shell script; not ok if it has a statement it does not know.
func script(text string) (behaviour, bool) {
	b := behaviour{termExit: exitTerm}
	for _, st := range strings.Split(text, ";") {
		words := strings.Fields(st)
		if len(words) == 0 {
			continue
		}
		ok, ends := b.statement(st, words)
		if !ok || ends {
			return b, ok
		}
	}
	return b, true
}

// statement adds what one statement does; ends is true for an exit.
func (b *behaviour) statement(text string, words []string) (ok, ends bool) {
	switch {
	case words[0] == "echo":
	case words[0] == "trap":
		b.ignoresTerm = ignoresTerm(text)
		if code, ok := trapExit(text); ok {
			b.termExit = code
		}
	case words[0] == "sleep" && len(words) == 2:
		d, ok := seconds(words[1])
		b.after, b.exit = sum(b.after, d), 0
		return ok, false
	case words[0] == "exit" && len(words) == 2:
		code, err := strconv.ParseUint(words[1], 10, 8)
		b.exit = int32(code)
		return err == nil, true
	case len(words) == 1 && words[0] == "true":
		b.exit = 0
	case len(words) == 1 && words[0] == "false":
		b.exit = 1
	default:
		return false, false
	}
	return true, false
}

// ignoresTerm is true for a script with an empty trap for TERM.
func ignoresTerm(text string) bool {
	t := strings.ReplaceAll(text, `"`, `'`)
	i := strings.Index(t, "trap '' ")
	return i >= 0 && strings.Contains(t[i:], "TERM")
}

// trapExit reads "trap 'exit N' TERM".
func trapExit(st string) (int32, bool) {
	t := strings.Fields(strings.NewReplacer(`"`, " ", `'`, " ").Replace(st))
	if len(t) < 4 || t[1] != "exit" || !strings.Contains(st, "TERM") {
		return 0, false
	}
	code, err := strconv.ParseUint(t[2], 10, 8)
	return int32(code), err == nil
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
