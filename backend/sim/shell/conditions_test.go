package shell_test

import (
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend/sim/shell"
)

// TestConditions: what test and [ hold for true, decided by the number of words (POSIX, test);
// status 2 is a mistake.
func TestConditions(t *testing.T) {
	for words, status := range map[string]int32{
		// No word is false, one is true unless it is empty.
		"": 1, "x": 0, "''": 1, "!": 0, "-n": 0, "-z": 0, "-f": 0, "=": 0, "-": 0, "0": 0, "' '": 0,

		// Two: what a word is, or not.
		"! x": 1, "! ''": 0, "! !": 1, "! -f": 1,
		"-n x": 0, "-n ''": 1, "-n -n": 0, "-z x": 1, "-z ''": 0, "-z -z": 1,

		// Files.
		"-e a": 0, "-e d": 0, "-e none": 1, "-e ''": 1, "-e /": 0, "-e .": 0, "-e ..": 0, "-e d/in": 0, "-e a/x": 1,
		"-f a": 0, "-f d": 1, "-f none": 1, "-f ''": 1, "-f d/in": 0, "-f ./a": 0, "-f ../home/a": 0,
		"-d d": 0, "-d a": 1, "-d made": 0, "-d ''": 1, "-d .": 0, "-d /": 0, "-d none": 1, "-d d/": 0,
		"-r a": 0, "-r d": 0, "-r made": 0, "-r none": 1, "-r empty": 0,
		"-w a": 0, "-w d": 0, "-w none": 1,
		"-x a": 1, "-x d": 0, "-x none": 1,
		"-s a": 0, "-s empty": 1, "-s d": 0, "-s made": 0, "-s none": 1,
		"-L a": 1, "-L none": 1, "-h a": 1,

		// Three: two words, or numbers, compared.
		"a = a": 0, "a = b": 1, "a == b": 1, "a == a": 0, "a != b": 0, "a != a": 1,
		"'' = ''": 0, "a = ''": 1, "'' != x": 0, "'a b' = 'a b'": 0,
		"! = !": 0, "! = x": 1, "! != x": 0, "-n = -n": 0, "-f = -d": 1, "= = =": 0, "( = (": 2,
		"1 -eq 1": 0, "1 -eq 2": 1, "01 -eq 1": 0, "' 1 ' -eq 1": 0, "1 = 01": 1, "-1 -eq -1": 0,
		"1 -ne 2": 0, "1 -ne 1": 1, "2 -gt 1": 0, "1 -gt 1": 1, "1 -gt 2": 1,
		"2 -lt 1": 1, "1 -lt 2": 0, "1 -lt 1": 1, "-1 -lt 0": 0,
		"2 -ge 2": 0, "1 -ge 2": 1, "2 -le 1": 1, "2 -le 2": 0,
		"a -eq 1": 2, "'' -eq 1": 2, "1 -eq a": 2, "1.5 -eq 1": 2, "1 -foo 1": 2, "a foo b": 2,

		// "!" before any of these is the opposite.
		"! a = b": 0, "! a = a": 1, "! -e a": 1, "! -e none": 0, "! -n x": 1, "! -z x": 0, "! 1 -eq 1": 1, "! 1 -lt 2": 1,
		"! ! x": 0, "! ! ''": 1, "! ! a = a": 0, "! ! a = b": 1,

		// More is no condition that is known.
		"a b": 2, "-q a": 2, "a b c d": 2, "a = a b": 2, "-e a = a": 2, "a -a b": 2, "'' -o b": 2, "! a b": 2,
	} {
		want := said{Status: status}
		if status == 2 {
			want.Err = "sh: test: unknown operand\n"
		}
		if words == "( = (" {
			want = said{Status: 127, Unknown: []string{""}} // to a shell it is no word
		}
		says(t, newDisk(), inHome, []string{"sh", "-c", "test " + words}, want)
		says(t, newDisk(), inHome, []string{"sh", "-c", "[ " + words + " ]"}, want)
	}
	for _, line := range []string{"[", "[ a", "[ a = a", "[ a]"} {
		says(t, newDisk(), inHome, []string{"sh", "-c", line}, said{Err: "sh: [: missing ]\n", Status: 2})
	}
}

// TestConditionsInScripts: what follows from a condition, where a variable may be empty.
func TestConditionsInScripts(t *testing.T) {
	for line, want := range map[string]said{
		`[ -f a ] && echo yes`:                     {Out: "yes\n"},
		`[ -f none ] || echo no`:                   {Out: "no\n"},
		`[ "$A" = 3 ] && echo yes`:                 {Out: "yes\n"},
		`[ $A -gt 2 ] && echo many || echo few`:    {Out: "many\n"},
		`[ $A -gt 3 ] && echo many || echo few`:    {Out: "few\n"},
		`[ -n $NONE ]; echo $?`:                    {Out: "0\n"}, // one word, which is not empty
		`[ -n "$NONE" ]; echo $?`:                  {Out: "1\n"},
		`[ -z $NONE ]; echo $?`:                    {Out: "0\n"},
		`[ -z "$NONE" ]; echo $?`:                  {Out: "0\n"},
		`[ $NONE = x ]; echo $?`:                   {Out: "2\n", Err: "sh: test: unknown operand\n"},
		`[ "$NONE" = x ]; echo $?`:                 {Out: "1\n"},
		`[ -e a ] && [ -e d ] && echo both`:        {Out: "both\n"},
		`[ -e a ] && [ -e none ] || echo not both`: {Out: "not both\n"},
		`test -f a; test -f none; echo $?`:         {Out: "1\n"},
		`rm a; test -e a; echo $?`:                 {Out: "1\n"},
		`mkdir x; [ -d x ]; echo $?`:               {Out: "0\n"},
		`touch x; [ -s x ]; echo $?`:               {Out: "1\n"},
		`echo > x; [ -s x ]; echo $?`:              {Out: "0\n"},
		`cd d; [ -f in ]; echo $?`:                 {Out: "0\n"},
		`[ "$(ls)" ]`:                              {Status: 127, Unknown: []string{""}},
	} {
		t.Run(line, func(t *testing.T) { says(t, newDisk(), inHome, []string{"sh", "-c", line}, want) })
	}
}

// TestSleep: how long a command sleeps, for ever, or not at all.
func TestSleep(t *testing.T) {
	const usage = "Usage: sleep [N]...\n"
	invalid := func(arg string) string { return "sleep: invalid number '" + arg + "'\n" }
	for line, want := range map[string]struct {
		slept  time.Duration
		stays  bool
		says   string
		status int32
	}{
		"sleep 2":               {slept: 2 * time.Second},
		"sleep 0":               {},
		"sleep 0.5":             {slept: 500 * time.Millisecond},
		"sleep 1 2":             {slept: 3 * time.Second},
		"sleep 1s 1m":           {slept: 61 * time.Second},
		"sleep 5m":              {slept: 5 * time.Minute},
		"sleep 1h":              {slept: time.Hour},
		"sleep 2d":              {slept: 48 * time.Hour},
		"sleep 1h30m":           {slept: 90 * time.Minute}, // more than busybox takes
		"sleep 1; sleep 2":      {slept: 3 * time.Second},
		"sleep infinity":        {stays: true},
		"sleep inf":             {stays: true},
		"sleep 1 infinity":      {stays: true},
		"sleep 99999999999":     {stays: true},
		"sleep 1e400":           {stays: true},
		"sleep":                 {says: usage, status: 1},
		"sleep x":               {says: invalid("x"), status: 1},
		"sleep -1":              {says: invalid("-1"), status: 1},
		"sleep ''":              {says: invalid(""), status: 1},
		"sleep 1 x":             {says: invalid("x"), status: 1},
		"sleep nan":             {says: invalid("nan"), status: 1},
		"sleep 1x":              {says: invalid("1x"), status: 1},
		"sleep d":               {says: invalid("d"), status: 1},
		"sleep x || sleep 2":    {slept: 2 * time.Second, says: invalid("x")},
		"sleep 1 && sleep 2":    {slept: 3 * time.Second},
		"sleep 1 | sleep 2":     {slept: 3 * time.Second}, // one after the other, unlike a kernel's
		"sh -c 'sleep 4'; true": {slept: 4 * time.Second},
	} {
		d := newDisk()
		status, ended := shell.Run(d, inHome, []string{"sh", "-c", line})
		if d.slept != want.slept || ended == want.stays || d.errors.String() != want.says || ended && status != want.status {
			t.Errorf("%q: slept %v, ended %v with %d, said %q; want %+v", line, d.slept, ended, status, &d.errors, want)
		}
	}
}
