package intask

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// etcOf is an /etc with these files.
func etcOf(t *testing.T, passwd, group string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"passwd": passwd, "group": group} {
		if text != "" {
			must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
	}
	return dir
}

// Whatever the image's files hold, a process becomes who a kubelet's would be.
func TestWhoAProcessBecomes(t *testing.T) {
	const passwd = "root:x:0:0:root:/root:/bin/sh\nshort:x:1\nbad:x:one:1::/bad:\n# comment\n" +
		"app:x:1000:1001::/home/app:\nalias:x:1000:7::/home/alias:\nworse:x:5:x::/w:\n"
	const group = "wheel:x:10:root,app\nshort:x\nbad:x:ten:app\napp:x:1001:\ndocker:x:20:apple,app\ntwice:x:10:app\n"
	big := strings.Repeat("x", 70_000)
	for name, tc := range map[string]struct {
		passwd, group string
		id            Identity
		want          credential
		err           string
	}{
		"nobody named: root":     {passwd, group, Identity{}, credential{Groups: []int{0, 10}, home: "/root"}, ""},
		"root of an empty image": {"", "", Identity{}, credential{Groups: []int{0}, home: "/"}, ""},
		"a name": {
			passwd, group,
			Identity{ImageUser: "app"},
			credential{UID: 1000, GID: 1001, Groups: []int{1001, 10, 20}, home: "/home/app"},
			"",
		},
		"the first of a number": {
			passwd, group,
			Identity{ImageUser: "1000:7"},
			credential{UID: 1000, GID: 1001, Groups: []int{1001, 10, 20}, home: "/home/app"},
			"",
		},
		"the pod's number counts": {
			passwd, group,
			Identity{ImageUser: "ghost", UID: new(int64(5))},
			credential{UID: 5, Groups: []int{0}, home: "/"},
			"",
		},
		"the pod's group, and the user's others": {
			passwd, group,
			Identity{ImageUser: "app", GID: new(int64(20))},
			credential{UID: 1000, GID: 20, Groups: []int{20, 10}, home: "/home/app"},
			"",
		},
		"groups of the pod, each once": {
			passwd, group,
			Identity{ImageUser: "app", Groups: []int64{10, 3000, 1001}, StrictGroups: true},
			credential{UID: 1000, GID: 1001, Groups: []int{1001, 10, 3000}, home: "/home/app"},
			"",
		},
		"a number that nobody has is in no group": {
			passwd, "x:x:30:\ny:x:31:,\n",
			Identity{UID: new(int64(4242))},
			credential{UID: 4242, Groups: []int{0}, home: "/"},
			"",
		},
		"no new privileges": {
			"", "",
			Identity{UID: new(int64(1)), NonRoot: true, NoNewPrivileges: true},
			credential{UID: 1, Groups: []int{0}, home: "/", NoNewPrivileges: true},
			"",
		},
		"a line that is none": {
			passwd, "",
			Identity{ImageUser: "bad"},
			credential{},
			"unable to find user bad: no matching entries in passwd file",
		},
		"a name without a file": {
			"", "",
			Identity{ImageUser: "app"},
			credential{},
			"unable to find user app: no matching entries in passwd file",
		},
		"a line without an end":  {big, "", Identity{}, credential{}, "/passwd: bufio.Scanner: token too long"},
		"a group without an end": {passwd, big, Identity{}, credential{}, "/group: bufio.Scanner: token too long"},
		"one that only number 0 fits is root": {
			passwd, "",
			Identity{ImageUser: "0:1000", NonRoot: true},
			credential{},
			"container has runAsNonRoot and image will run as root",
		},
		"-1, which a kernel takes for no change": {
			passwd, group,
			Identity{ImageUser: "-1", NonRoot: true},
			credential{},
			"image has non-numeric user (-1), cannot verify user is non-root",
		},
		"a number that a kernel cuts to 0": {
			passwd, group,
			Identity{ImageUser: "4294967296"},
			credential{},
			"unable to find user 4294967296: no matching entries in passwd file",
		},
		"the largest number": {
			passwd, group,
			Identity{ImageUser: "2147483647", NonRoot: true},
			credential{UID: 2147483647, Groups: []int{0}, home: "/"},
			"",
		},
		"a user whose number is none": {
			"cut:x:4294967296:5::/c:\nminus:x:-1:5::/m:\n", "",
			Identity{ImageUser: "cut"},
			credential{},
			"unable to find user cut: no matching entries in passwd file",
		},
		"a user whose group's number is none": {
			"app:x:1000:-1::/a:\napp:x:1000:7::/b:\n", "",
			Identity{ImageUser: "app"},
			credential{UID: 1000, GID: 7, Groups: []int{7}, home: "/b"},
			"",
		},
		"groups whose numbers are none": {
			passwd, "a:x:-1:app\nb:x:4294967296:app\nc:x:30:app\n",
			Identity{ImageUser: "app"},
			credential{UID: 1000, GID: 1001, Groups: []int{1001, 30}, home: "/home/app"},
			"",
		},
	} {
		got, err := credentialOf(etcOf(t, tc.passwd, tc.group), tc.id)
		if tc.err != "" {
			if err == nil || !strings.HasSuffix(err.Error(), tc.err) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, tc.want)
		}
	}
}

func TestHostsFiles(t *testing.T) {
	both := addresses{"10.0.0.7", "fd00::7"}
	for name, tc := range map[string]struct {
		hosts  Hosts
		at     addresses
		names  string
		kernel string
		want   string // after the head
	}{
		"a pod":              {Hosts{}, both, "web-0", "", "10.0.0.7\tweb-0\nfd00::7\tweb-0\n"},
		"with a subdomain":   {Hosts{}, both[:1], "web-0 web-0.svc.ns", "", "10.0.0.7\tweb-0.svc.ns\tweb-0\n"},
		"of another kernel":  {Hosts{}, both[:1], "web-0", "ip-10-0-0-7", "10.0.0.7\tweb-0\tip-10-0-0-7\n"},
		"the kernel's alone": {Hosts{}, both[:1], "", "ip-10-0-0-7", "10.0.0.7\tip-10-0-0-7\n"},
		"the same":           {Hosts{}, both[:1], "web-0", "web-0", "10.0.0.7\tweb-0\n"},
		"no name at all":     {Hosts{}, both, "", "localhost", ""},
		"no address":         {Hosts{}, nil, "web-0", "", ""},
		"with aliases": {
			Hosts{Aliases: []HostAlias{{IP: "1.2.3.4", Hostnames: []string{"a", "b"}}, {IP: "::9", Hostnames: []string{"c"}}}},
			nil, "", "",
			"\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n::9\tc\n",
		},
	} {
		etc := t.TempDir()
		must(t, os.WriteFile(filepath.Join(etc, "hosts"), []byte(strings.Repeat("of ECS, and longer\n", 50)), 0o600))
		for range 2 { // several containers of a task may share it
			must(t, writeHosts(etc, tc.hosts, tc.at, namesIn(tc.names), tc.kernel))
			if got := read(t, filepath.Join(etc, "hosts")); got != hostsHead+tc.want {
				t.Errorf("%s: %q", name, strings.TrimPrefix(got, hostsHead))
			}
		}
	}
}

// The task's addresses are those that ECS says, IPv4 first. What it does not say yet is
// asked again.
func TestWhereATaskLearnsItsAddresses(t *testing.T) {
	t.Parallel()
	const one = `{"Containers":[{},{"Networks":[{"IPv6Addresses":["fd00::7"]},{"IPv4Addresses":["10.0.0.7"]}]},` +
		`{"Networks":[{"IPv4Addresses":["10.0.0.8"]}]}]}`
	own := ownAddresses()
	for name, tc := range map[string]struct {
		answers []string // the last for good; "": status 500
		want    addresses
		asked   int
	}{
		"at once":       {[]string{one}, addresses{"10.0.0.7", "fd00::7"}, 1},
		"a while later": {[]string{`{"Containers":[]}`, "", "x", one}, addresses{"10.0.0.7", "fd00::7"}, 4},
		"never":         {[]string{`{}`}, own, addressTries},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			ecs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer := tc.answers[min(asked, len(tc.answers)-1)]
				if asked++; r.URL.Path != "/v4/id/task" || answer == "" {
					w.WriteHeader(http.StatusInternalServerError)
				}
				_, _ = w.Write([]byte(answer))
			}))
			task := Task{Env: func(name string) string { return map[string]string{envMetadata: ecs.URL + "/v4/id"}[name] }}
			got, err := task.addresses(t.Context())
			ecs.Close()
			want := tc.want
			if name == "never" && !slices.Equal(got, want) {
				want = ownAddresses() // another test's interface came or went
			}
			if (err != nil) != (len(want) == 0) || !slices.Equal(got, want) || asked != tc.asked {
				t.Errorf("%v, %v after %d calls", got, err, asked)
			}
		})
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	task := Task{Env: func(string) string { return "http://127.0.0.1:1" }}
	if _, err := task.addresses(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("a task that is stopped: %v", err)
	}
}

// What a container put in the place of its termination message is not followed, and its
// end is what counts, as text.
func TestWhatIsReadOfATerminationMessage(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.WriteFile(at("short"), []byte("why\n"), 0o600))
	must(t, os.WriteFile(at("long"), []byte("x"+strings.Repeat("a", maxMessage)), 0o600))
	must(t, os.WriteFile(at("binary"), []byte("a\xff\xfeb"), 0o600))
	must(t, os.Symlink(at("short"), at("link")))
	must(t, os.Mkdir(at("dir"), 0o700))
	must(t, unix.Mkfifo(at("pipe"), 0o600))
	for name, tc := range map[string]struct{ want, err string }{
		"short":   {want: "why\n"},
		"long":    {want: strings.Repeat("a", maxMessage)},
		"binary":  {want: "a\uFFFDb"},
		"missing": {},
		"link":    {err: "too many levels of symbolic links"},
		"dir":     {err: "dir is no file"},
		"pipe":    {err: "pipe is no file"},
	} {
		got, err := readMessage(at(name))
		if got != tc.want || (err != nil) != (tc.err != "") || err != nil && !strings.HasSuffix(err.Error(), tc.err) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	must(t, makeMessage(at("new/deep/log")))
	must(t, os.WriteFile(at("new/deep/log"), []byte("of the container before"), 0o600))
	must(t, makeMessage(at("new/deep/log")))
	info, err := os.Stat(at("new/deep/log"))
	if err != nil || info.Size() != 0 || info.Mode().Perm() != 0o666 {
		t.Errorf("a new one: %+v, %v", info, err)
	}
	for name, want := range map[string]string{
		"link": "too many levels of symbolic links", "dir": "is a directory",
		"short/x": "not a directory",
	} {
		if err := makeMessage(at(name)); err == nil || !strings.HasPrefix(err.Error(), "terminationMessagePath: ") ||
			!strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A health check asks the file that a supervisor writes.
func TestHowAContainerIs(t *testing.T) {
	for _, tc := range []struct {
		state *state
		want  string
	}{
		{nil, "the container has not started"},
		{&state{}, pendingHook},
		{&state{started: true, ready: true}, pendingHook},
		{&state{hooked: true}, pendingStart},
		{&state{hooked: true, ready: true}, pendingStart},
		{&state{hooked: true, started: true}, pendingReady},
		{&state{hooked: true, started: true, why: "HTTP probe failed"}, "HTTP probe failed"},
		{&state{hooked: true, started: true, ready: true, why: "HTTP probe failed"}, healthy},
		{&state{hooked: true, started: true, ready: true, ended: true}, containerEnded},
	} {
		run := t.TempDir()
		if tc.state != nil {
			must(t, publish(run, state{}))
			must(t, publish(run, *tc.state))
		}
		var out bytes.Buffer
		err := Task{RunDir: run}.Health(&out)
		if out.String() != tc.want+"\n" || (err == nil) != (tc.want == healthy) || err != nil &&
			!errors.Is(err, errUnhealthy) {
			t.Errorf("%+v: %q, %v", tc.state, out.String(), err)
		}
	}
	if err := (Task{RunDir: t.TempDir() + "/none"}).Health(&bytes.Buffer{}); !errors.Is(err, errUnhealthy) {
		t.Errorf("without a directory: %v", err)
	}
	if err := publish(t.TempDir()+"/none", state{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nowhere to write to: %v", err)
	}
}

func TestWhatTheTaskSaysOfItself(t *testing.T) {
	for name, tc := range map[string]struct {
		task, stats string // "": status 500
		want        string
	}{
		"both":     {`{"Family":"f"}`, `{"id":{}}`, `{"task":{"Family":"f"},"stats":{"id":{}}}`},
		"no task":  {"", `{}`, "read the task's metadata: "},
		"no stats": {`{}`, "", "read the task's statistics: "},
		"no JSON":  {`{}`, "x", "read the task's statistics: "},
	} {
		ecs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer := map[string]string{"/task": tc.task, "/task/stats": tc.stats}[r.URL.Path]
			if answer == "" {
				w.WriteHeader(http.StatusInternalServerError)
			}
			_, _ = w.Write([]byte(answer))
		}))
		text, err := Task{Env: func(string) string { return ecs.URL }}.Stats(t.Context())
		ecs.Close()
		got := string(text)
		if err != nil {
			got = err.Error()
		} else if !json.Valid(text) {
			t.Errorf("%s: %s", name, text)
		}
		if !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
	if _, err := (Task{Env: func(string) string { return "" }}).Stats(t.Context()); err == nil ||
		err.Error() != "there is no "+envMetadata+": this is no ECS task" {
		t.Errorf("%v", err)
	}
}
