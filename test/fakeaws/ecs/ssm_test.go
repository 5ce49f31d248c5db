package ecs

import (
	"slices"
	"strings"
	"testing"
)

func TestCommandsAreSplitWithoutAShell(t *testing.T) {
	for command, want := range map[string][]string{
		"/bin/sh":                      {"/bin/sh"},
		"  a  b\tc\n":                  {"a", "b", "c"},
		`sh -c "echo 'a  b'"`:          {"sh", "-c", "echo 'a  b'"},
		`a 'b "c" \d' e\ f "g\"h" ''`:  {"a", `b "c" \d`, "e f", `g"h`, ""},
		`echo $HOME && ls | cat > x *`: {"echo", "$HOME", "&&", "ls", "|", "cat", ">", "x", "*"},
		"":                             nil,
	} {
		if got, err := splitWords(command); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", command, got, err)
		}
	}
	for _, command := range []string{`a "b`, `a 'b`, `a\`} {
		if got, err := splitWords(command); err == nil {
			t.Errorf("%q: %q", command, got)
		}
	}
}

func TestBytesThatAreNoTextAreHeldBackOrReplaced(t *testing.T) {
	for in, want := range map[string][2]string{
		"text ü €":            {"text ü €", ""},
		"\xff and more":       {"\ufffd and more", ""},
		"at the end \xe2\x82": {"at the end ", "\xe2\x82"},
		"abc\xff":             {"abc", "\xff"},
	} {
		if text, rest := mangle([]byte(in)); string(text) != want[0] || string(rest) != want[1] {
			t.Errorf("%q: %q and %q", in, text, rest)
		}
	}
}

func TestABadWayLosesDoublesAndSwaps(t *testing.T) {
	l := lossy{faults: FrameFaults{Drop: 5, Double: 3, Swap: 2}}
	var got []string
	for _, m := range []string{"1", "2", "3", "4", "5", "6", "7"} {
		for _, b := range l.pass([]byte(m)) {
			got = append(got, string(b))
		}
	}
	if text := strings.Join(got, " "); text != "1 3 3 2 4 6 6 7" {
		t.Errorf("arrived: %s", text)
	}
}

// TestExecuteCommandRefuses asks for commands in a task with one container that is
// on, one whose root file system is read-only, and without ECS Exec.
func TestExecuteCommandRefuses(t *testing.T) {
	s := New(Config{})
	run := func(execute string) string {
		t.Helper()
		definition := `{"family":"f","networkMode":"awsvpc","cpu":"256","memory":"512","requiresCompatibilities":["FARGATE"],
			"taskRoleArn":"arn:aws:iam::123456789012:role/task","containerDefinitions":[
			{"name":"app","image":"busybox:1","command":["sleep","100"]},
			{"name":"ro","image":"busybox:1","command":["sleep","100"],"readonlyRootFilesystem":true}]}`
		task := `{"taskDefinition":"f","launchType":"FARGATE","networkConfiguration":{"awsvpcConfiguration":{"subnets":["subnet-a"]}},"enableExecuteCommand":` +
			execute + `}`
		if code := post(t, s, "ecs", "RegisterTaskDefinition", definition) + post(t, s, "ecs", "RunTask", task); code != "" {
			t.Fatal(code)
		}
		arns := s.Tasks(true)
		return arns[len(arns)-1]
	}
	with, without := run("true"), run("false")
	for name, tt := range map[string]struct{ body, want string }{
		"it is on": {`{"task":"` + with + `","container":"app","command":"sh","interactive":true}`, ""},
		"not interactive": {
			`{"task":"` + with + `","container":"app","command":"sh","interactive":false}`, "InvalidParameterException",
		},
		"no command": {
			`{"task":"` + with + `","container":"app","command":" ","interactive":true}`, "InvalidParameterException",
		},
		"which container": {`{"task":"` + with + `","command":"sh","interactive":true}`, "InvalidParameterException"},
		"no such container": {
			`{"task":"` + with + `","container":"x","command":"sh","interactive":true}`, "InvalidParameterException",
		},
		"no such task": {
			`{"task":"x","container":"app","command":"sh","interactive":true}`, "InvalidParameterException",
		},
		"no such cluster": {
			`{"cluster":"x","task":"x","container":"app","command":"sh","interactive":true}`, "ClusterNotFoundException",
		},
		"without ECS Exec": {
			`{"task":"` + without + `","container":"app","command":"sh","interactive":true}`, "InvalidParameterException",
		},
		"the root is read-only": {
			`{"task":"` + with + `","container":"ro","command":"sh","interactive":true}`, "TargetNotConnectedException",
		},
		"a member that is no one": {`{"task":"` + with + `","shell":true}`, "SerializationException"},
	} {
		if code := post(t, s, "ecs", "ExecuteCommand", tt.body); code != tt.want {
			t.Errorf("%s: %q, want %q", name, code, tt.want)
		}
	}
	s.Deny(Denial{Principal: TaskRole, Action: "ssmmessages:OpenDataChannel"})
	if code := post(t, s, "ecs", "ExecuteCommand", `{"task":"`+with+
		`","container":"app","command":"sh","interactive":true}`); code != "TargetNotConnectedException" {
		t.Errorf("a role that may not: %q", code)
	}
}
