package ecs

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// What a script writes in its first 100 seconds, as "second:text".
func TestPrints(t *testing.T) {
	for text, want := range map[string]string{
		"echo a; sleep 3; echo b":                                 "0:a 3:b",
		"echo a && sleep 1 && echo 'b; c'":                        "0:a 1:b; c",
		"echo a\nsleep 1\necho b":                                 "0:a 1:b",
		"echo gone > /dev/null; echo a 2>&1; echo b >&2":          "0:a 0:b",
		"seq 3; sleep 1; seq 2":                                   "0:1 0:2 0:3 1:1 1:2",
		"seq 2 > /tmp/x; echo a":                                  "0:a",
		"echo a; while true; do echo b; sleep 40; done; echo c":   "0:a 0:b 40:b 80:b",
		"sleep 5; while :; do sleep 40; echo $i; done":            "45:0 85:1",
		"while true; do echo no pause; done":                      "",
		"echo a; something unknown; echo b":                       "0:a",
		"echo a; exec sleep 3":                                    "0:a",
		"sleep 3; echo a; exit 2; echo b":                         "3:a",
		"echo \"a  'b'\"":                                         "0:a  'b'",
		"i=0; while true; do echo $i; i=$((i+1)); sleep 50; done": "0:0 50:1 100:2",
	} {
		p := script(text).prints
		var got []string
		for i := range p.count(100 * time.Second) {
			at, line := p.line(i)
			got = append(got, fmt.Sprintf("%.0f:%s", at.Seconds(), line))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: got %s, want %s", text, s, want)
		}
	}
}

func TestScriptEnds(t *testing.T) {
	for text, want := range map[string]outcome{
		"sleep 5; oom":                         {5 * time.Second, 137, false, 143, true},
		"trap 'exit 9' TERM; unknown":          {never, 0, false, 9, false},
		"unknown; trap '' TERM":                {never, 0, true, 143, false},
		"healthy 5; unhealthy; sleep 3":        {3 * time.Second, 0, false, 143, false},
		"set -e; sleep 1; false; exit 300":     {never, 0, false, 143, false},
		"while true; do sleep 1; exit 1; done": {never, 0, false, 143, false},
		"echo a; sleep infinity; exit 1":       {never, 0, false, 143, false},
	} {
		if got := script(text).outcome; got != want {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
	}
}
