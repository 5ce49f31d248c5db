package shell

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParse: how a script is taken apart.
func TestParse(t *testing.T) {
	words := func(w ...string) statement { return statement{words: w} }
	for script, want := range map[string][]statement{
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
			words("a"), {words: []string{"b"}, when: onSuccess}, {words: []string{"c"}, when: onFailure},
		},
		"a &&\nb": {words("a"), {words: []string{"b"}, when: onSuccess}},
		"a | b": {
			{words: []string{"a"}, pipes: true}, {words: []string{"b"}, fed: true},
		},
		"a |\n b && c": {
			{words: []string{"a"}, pipes: true}, {words: []string{"b"}, fed: true}, {words: []string{"c"}, when: onSuccess},
		},
		"a>b": {{words: []string{"a"}, redirects: []redirect{{fd: 1, target: "b"}}}},
		"a 2>> b <c >&2 2>&1": {{words: []string{"a"}, redirects: []redirect{
			{fd: 2, target: "b", add: true},
			{fd: 0, target: "c"},
			{fd: 1, target: "2", dup: true},
			{fd: 2, target: "1", dup: true},
		}}},
		"a2>b":     {{words: []string{"a2"}, redirects: []redirect{{fd: 1, target: "b"}}}},
		"a > '$V'": {{words: []string{"a"}, redirects: []redirect{{fd: 1, target: "$V"}}}},
		"a |":      {{words: []string{"a"}, pipes: true}, {opaque: true, fed: true}},
	} {
		if diff := cmp.Diff(want, parsed(script), cmp.AllowUnexported(statement{}, redirect{})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", script, diff)
		}
	}
}

func parsed(script string) (all []statement) {
	p := parseScript(script, func(name string) string { return map[string]string{"V": "a b", "?": "status"}[name] })
	for s, ok := p.next(); ok; s, ok = p.next() {
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
		if len(all) != 3 || all[0].opaque || !all[1].opaque || all[2].opaque {
			t.Errorf("%q: %+v", beyond, all)
		}
	}
	for _, open := range []string{"'a", "a \"b", "a | b |"} {
		if all := parsed(open); !all[len(all)-1].opaque {
			t.Errorf("%q: %+v", open, all)
		}
	}
}

// TestConditionsOfStatements: which commands run after a status.
func TestConditionsOfStatements(t *testing.T) {
	for _, tt := range []struct {
		when             condition
		after0, after127 bool // skipped
	}{{always, false, false}, {onSuccess, false, true}, {onFailure, true, false}} {
		if got0, got127 := tt.when.skips(0), tt.when.skips(127); got0 != tt.after0 || got127 != tt.after127 {
			t.Errorf("condition %d skips after success: %v, after failure: %v", tt.when, got0, got127)
		}
	}
}
