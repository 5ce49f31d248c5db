package script

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParse: how a script is taken apart.
func TestParse(t *testing.T) {
	words := func(w ...string) Statement { return Statement{Words: w} }
	for script, want := range map[string][]Statement{
		"":                       nil,
		" \t\n;; ":               nil,
		"echo a  b":              {words("echo", "a", "b")},
		"a; b\nc;":               {words("a"), words("b"), words("c")},
		"a # b; c\nd#e":          {words("a"), words("d#e")},
		"echo 'a  b' \"c d\"e":   {words("echo", "a  b", "c de")},
		"echo '' \"\"":           {words("echo", "", "")},
		"'$V' \"$V\" $V ${V}x":   {words("$V", "a b", "a b", "a bx")},
		"echo $none \"$none\" x": {words("echo", "", "x")},
		`"\"\$\\\a"`:             {words(`"$\\a`)},
		"echo $?":                {words("echo", "status")},
		"a && b || c": {
			words("a"), {Words: []string{"b"}, When: OnSuccess}, {Words: []string{"c"}, When: OnFailure},
		},
		"a &&\nb": {words("a"), {Words: []string{"b"}, When: OnSuccess}},
		"a | b": {
			{Words: []string{"a"}, Pipes: true}, {Words: []string{"b"}, Fed: true},
		},
		"a |\n b && c": {
			{Words: []string{"a"}, Pipes: true}, {Words: []string{"b"}, Fed: true}, {Words: []string{"c"}, When: OnSuccess},
		},
		"a>b": {{Words: []string{"a"}, Redirects: []Redirect{{FD: 1, Target: "b"}}}},
		"a 2>> b <c >&2 2>&1": {{Words: []string{"a"}, Redirects: []Redirect{
			{FD: 2, Target: "b", Add: true},
			{FD: 0, Target: "c"},
			{FD: 1, Target: "2", Dup: true},
			{FD: 2, Target: "1", Dup: true},
		}}},
		"a2>b":     {{Words: []string{"a2"}, Redirects: []Redirect{{FD: 1, Target: "b"}}}},
		"a > '$V'": {{Words: []string{"a"}, Redirects: []Redirect{{FD: 1, Target: "$V"}}}},
		"a |":      {{Words: []string{"a"}, Pipes: true}, {Opaque: true, Fed: true}},
	} {
		if diff := cmp.Diff(want, parsed(script)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", script, diff)
		}
	}
}

func parsed(script string) (all []Statement) {
	p := Parse(script, func(name string) string { return map[string]string{"V": "a b", "?": "status"}[name] })
	for s, ok := p.Next(); ok; s, ok = p.Next() {
		all = append(all, s)
	}
	return all
}

// TestBeyondTheConvention: a statement with more of a shell's syntax is marked, and those
// beside it are not.
func TestBeyondTheConvention(t *testing.T) {
	for _, beyond := range []string{
		"a & b", "(a)", "echo `a`", "echo \"`a`\"", "echo *", "echo \\a", "echo $(a)", "echo ${a-b}", "echo ${a", "echo $1",
		"echo $",
		"a <<b", "a > > b", "a >", "| a",
	} {
		all := parsed("before; " + beyond + "; after")
		if len(all) != 3 || all[0].Opaque || !all[1].Opaque || all[2].Opaque {
			t.Errorf("%q: %+v", beyond, all)
		}
	}
	for _, open := range []string{"'a", "a \"b", "a | b |"} {
		if all := parsed(open); !all[len(all)-1].Opaque {
			t.Errorf("%q: %+v", open, all)
		}
	}
}

// TestConditionsOfStatements: which commands run after a status.
func TestConditionsOfStatements(t *testing.T) {
	for _, tt := range []struct {
		When             Condition
		after0, after127 bool // skipped
	}{{Always, false, false}, {OnSuccess, false, true}, {OnFailure, true, false}} {
		if got0, got127 := tt.When.Skips(0), tt.When.Skips(127); got0 != tt.after0 || got127 != tt.after127 {
			t.Errorf("condition %d skips after success: %v, after failure: %v", tt.When, got0, got127)
		}
	}
}
