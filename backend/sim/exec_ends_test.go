package sim_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
)

// scripted is what commands do in TestHowCommandsEnd whose name says how they end; others are read as command lines.
func scripted(c sim.Command) (sim.Outcome, bool) {
	out, known := map[string]sim.Outcome{
		"ends":      {After: 2 * time.Second, ExitCode: 4, Stdout: "out", Stderr: "err"},
		"at-once":   {Stdout: "out"},
		"never":     {After: -time.Hour, Stdout: "never seen"},
		"breaks":    {After: 2 * time.Second, Err: backend.Errorf(backend.ErrDenied, "the shim broke")},
		"says-what": {Stdout: fmt.Sprint(c.Pod.UID, c.Container.Name, c.Attempt, c.Argv)},
	}[c.Argv[0]]
	return out, known
}

// TestHowCommandsEnd: by themselves, by their time, with their caller or their container, or where no more of their
// output is taken.
func TestHowCommandsEnd(t *testing.T) {
	const late, enough = "deadline exceeded", "write output: enough"
	sh := func(script string) []string { return []string{"sh", "-c", script} }
	for name, tt := range map[string]struct {
		argv           []string
		timeout, limit int // seconds that the command has, and its caller; 0 is none
		refuses        bool
		out            string
		code           int32
		class, says    string
		takes          int // seconds
	}{
		"by itself":              {argv: sh("sleep 2; exit 5"), timeout: 3, code: 5, takes: 2},
		"by its time":            {argv: []string{"sleep", "5"}, timeout: 1, class: "Transient", says: late, takes: 1},
		"with its caller":        {argv: sh("sleep 5"), timeout: 3, limit: 2, class: "Transient", says: late, takes: 2},
		"with its container":     {argv: []string{"sleep", "99"}, code: 137, takes: 10},
		"what serves, with it":   {argv: []string{"serve", "80"}, code: 137, takes: 10},
		"what was said is there": {argv: sh("echo a; sleep 99; echo b"), out: "a\n", code: 137, takes: 10},
		"refused": {
			argv: sh("sleep 1; echo a; sleep 99"), refuses: true, class: "Transient", says: enough, takes: 1,
		},
		"refused, and all is": {argv: sh("echo a; sleep 99"), refuses: true, class: "Transient", says: enough},
		"nothing to refuse":   {argv: []string{"true"}, refuses: true},
		"no such program":     {argv: []string{"x"}, class: "Invalid", says: `exec: "x": executable file not found`},
		"none in a shell":     {argv: sh("nonsense"), out: "sh: nonsense: not found\n", code: 127},

		"as scripted":                {argv: []string{"ends"}, out: "outerr", code: 4, takes: 2},
		"as scripted, at once":       {argv: []string{"at-once"}, out: "out"},
		"scripted never to end":      {argv: []string{"never"}, code: 137, takes: 10},
		"scripted to break":          {argv: []string{"breaks"}, class: "Denied", says: "the shim broke", takes: 2},
		"scripted, cut short":        {argv: []string{"ends"}, timeout: 1, class: "Transient", says: late, takes: 1},
		"to break, and cut short":    {argv: []string{"breaks"}, limit: 1, class: "Transient", says: late, takes: 1},
		"scripted, and refused":      {argv: []string{"at-once"}, refuses: true, class: "Transient", says: enough},
		"the script knows its place": {argv: []string{"says-what", "x"}, out: "uc0 [says-what x]"},
		"no command":                 {class: "Invalid", says: "no command"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, b := running(t, sim.Config{Exec: scripted}, "sleep", "10")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.limit > 0 {
					ctx, cancel = context.WithTimeout(ctx, seconds(tt.limit))
					defer cancel()
				}
				var out strings.Builder
				spec := backend.ExecSpec{Command: tt.argv, Timeout: seconds(tt.timeout), Stdout: &out, Stderr: &out}
				if tt.refuses {
					spec.Stdout = takesNothing{}
				}
				begun := time.Now()
				code, err := b.Exec.Exec(ctx, backend.ContainerRef{Pod: backend.Ref{UID: "u"}, Name: "c"}, spec)
				took := time.Since(begun)
				if code != tt.code || backend.Class(err) != tt.class || out.String() != tt.out || took != seconds(tt.takes) {
					t.Errorf("%d, %v, %q after %v; want %d, %q, %q after %d s",
						code, err, out.String(), took, tt.code, tt.class, tt.out, tt.takes)
				}
				if err != nil && !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%v, want %q", err, tt.says)
				}
			})
		})
	}
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// inputs counts how often it is read.
type inputs struct {
	io.Reader
	reads int
}

func (i *inputs) Read(p []byte) (int, error) {
	i.reads++
	return i.Reader.Read(p)
}

// TestWhenInputIsRead: as soon as a command wants it, once more after each part, and not at all before; what a command
// leaves is for the next.
func TestWhenInputIsRead(t *testing.T) {
	for script, tt := range map[string]struct {
		parts []string
		out   string
		read  bool
	}{
		"true":                                 {parts: []string{"a"}},
		"echo x":                               {parts: []string{"a"}, out: "x\n"},
		"cat /dev/null":                        {parts: []string{"a"}},
		"cat":                                  {parts: []string{"a", "b\n"}, out: "ab\n", read: true},
		"cat; cat":                             {parts: []string{"a", "b"}, out: "ab", read: true},
		"cat > /f; wc -c < /f":                 {parts: []string{"a", "bc"}, out: "3\n", read: true},
		"cat; echo end":                        {out: "end\n", read: true},
		"echo x | cat":                         {parts: []string{"a"}, out: "x\n"},
		"head -n 1; cat":                       {parts: []string{"a\nb\n"}, out: "a\n", read: true},
		"sh":                                   {parts: []string{"echo a; ca", "t\nrest"}, out: "a\nrest", read: true},
		"sh -c 'exit 3'; echo $?":              {parts: []string{"a"}, out: "3\n"},
		"cat | grep b":                         {parts: []string{"a\nb", "b\n"}, out: "bb\n", read: true},
		"sleep 1; cat":                         {parts: []string{"late"}, out: "late", read: true},
		"sleep 1; echo x":                      {parts: []string{"a"}, out: "x\n"},
		"test -e /none && cat || echo no file": {parts: []string{"a"}, out: "no file\n"},
	} {
		t.Run(script, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, b := running(t, sim.Config{}, "serve")
				var readers []io.Reader
				for _, part := range tt.parts {
					readers = append(readers, strings.NewReader(part))
				}
				in := &inputs{Reader: io.MultiReader(readers...)}
				out, errs, _, err := runRaw(t.Context(), b, in, "sh", "-c", script)
				synctest.Wait()
				if err != nil || errs != "" || string(out) != tt.out || (in.reads > 0) != tt.read {
					t.Errorf("%q, %q, %v after %d reads; want %q, read: %v", out, errs, err, in.reads, tt.out, tt.read)
				}
			})
		})
	}
}

// TestBrokenInput is the end of the input to a command, whatever broke it.
func TestBrokenInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b := running(t, sim.Config{}, "serve")
		broken, w := io.Pipe()
		go func() {
			_, _ = io.WriteString(w, "all there was\n")
			_ = w.CloseWithError(errors.New("cut"))
		}()
		out, errs, code, err := runRaw(t.Context(), b, broken, "sh", "-c", "cat; echo $?")
		if string(out) != "all there was\n0\n" || errs != "" || code != 0 || err != nil {
			t.Errorf("%q, %q, %d, %v", out, errs, code, err)
		}
	})
}
