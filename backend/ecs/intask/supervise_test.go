package intask

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/burstlet/burstlet/test/kit/wait"
)

func exits(command string) *Handler { return &Handler{Exec: []string{"sh", "-c", command}} }

func probing(command string, change ...func(*Probe)) *Probe {
	p := &Probe{Handler: *exits(command), Period: 1, Timeout: 100, FailureThreshold: 1}
	for _, c := range change {
		c(p)
	}
	return p
}

func TestTheContainerEndsAsItsCommandDid(t *testing.T) {
	for name, c := range map[string]struct {
		argv []string
		code int
		want Report
	}{
		"well":        {[]string{"sh", "-c", "echo out; echo err >&2"}, 0, Report{}},
		"badly":       {[]string{"sh", "-c", "exit 3"}, 3, Report{}},
		"by a signal": {[]string{"sh", "-c", "kill -9 $$"}, 137, Report{}},
		"not in PATH": {[]string{"no-such"}, 127, Report{
			Reason: ReasonStartError, Message: `exec: "no-such": executable file not found in $PATH`,
		}},
		"not there": {[]string{"/no/such"}, 127, Report{
			Reason: ReasonStartError, Message: `exec: "/no/such": stat /no/such: no such file or directory`,
		}},
		"not executable": {
			[]string{"/etc/passwd"}, 126, Report{Reason: ReasonStartError, Message: `exec: "/etc/passwd": permission denied`},
		},
		"a directory": {[]string{"/etc"}, 126, Report{Reason: ReasonStartError, Message: `exec: "/etc": is a directory`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			code, r := b.runs(Spec{}, c.argv...)
			c.want.Exit = c.code
			if code != c.code || r != c.want {
				t.Errorf("exit %d, %+v, want %+v", code, r, c.want)
			}
			if name == "well" && (b.stdout.String() != "out\n" || !strings.HasPrefix(b.stderr.String(), "err\n\x1eburstlet {")) {
				t.Errorf("%q, %q", b.stdout, b.stderr)
			}
		})
	}
}

func TestTheContainerIsItsUser(t *testing.T) {
	t.Parallel()
	const show = `echo "$(id -u) $(id -g) $(id -G) $HOME"; grep -E 'CapBnd|CapPrm|NoNew' /proc/self/status | tr -d '\n\t'`
	for name, c := range map[string]struct {
		id   Identity
		want string
	}{
		"root":         {Identity{}, "0 0 0 10 /root\n"},
		"image's name": {Identity{ImageUser: "app:ignored"}, "1000 1001 1001 10 /home/app\n"},
		"a number that the image knows": {
			Identity{UID: new(int64(1000)), Groups: []int64{2000}}, "1000 1001 1001 10 2000 /home/app\n",
		},
		"strict groups": {
			Identity{UID: new(int64(1000)), Groups: []int64{2000}, StrictGroups: true}, "1000 1001 1001 2000 /home/app\n",
		},
		"an unknown one":   {Identity{UID: new(int64(4242)), GID: new(int64(7))}, "4242 7 7 /\n"},
		"group of its own": {Identity{UID: new(int64(1000)), GID: new(int64(7))}, "1000 7 7 10 /home/app\n"},
		"without rights": {
			Identity{Drop: []string{"ALL"}, Add: []string{"CAP_net_bind_service"}, NoNewPrivileges: true},
			"0 0 0 10 /root\nCapPrm:0000000000000400CapBnd:0000000000000400NoNewPrivs:1",
		},
		"a user has no capability": {
			Identity{UID: new(int64(1000)), Drop: []string{"all"}, Add: []string{"CHOWN"}},
			"1000 1001 1001 10 /home/app\nCapPrm:0000000000000000CapBnd:0000000000000001NoNewPrivs:0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			if code, r := b.runs(Spec{Identity: c.id}, "sh", "-c", show); code != 0 {
				t.Fatalf("%d, %+v", code, r)
			}
			if got := b.stdout.String(); !strings.HasPrefix(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestWhatCannotBeIsRefusedBeforeTheStart(t *testing.T) {
	for name, c := range map[string]struct {
		spec   Spec
		reason string
		want   string
	}{
		"root": {
			Spec{Identity: Identity{NonRoot: true}}, ReasonConfigError, "container has runAsNonRoot and image will run as root",
		},
		"root by spec": {
			Spec{Identity: Identity{NonRoot: true, UID: new(int64(0))}},
			ReasonConfigError,
			"container's runAsUser breaks non-root policy",
		},
		"a name": {
			Spec{Identity: Identity{NonRoot: true, ImageUser: "app"}},
			ReasonConfigError,
			"container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root",
		},
		"nobody": {
			Spec{Identity: Identity{ImageUser: "ghost"}},
			ReasonStartError,
			"unable to find user ghost: no matching entries in passwd file",
		},
		"capability": {Spec{Identity: Identity{Add: []string{"FLY"}}}, ReasonStartError, `unknown capability "FLY" to add`},
		"signal":     {Spec{StopSignal: "SIGFOO"}, ReasonStartError, `lifecycle.stopSignal: "SIGFOO" is no signal`},
		"subPath": {
			Spec{SubPaths: []SubPath{{MountPath: "/x", Volume: "/tmp", Path: "../y"}}},
			ReasonStartError,
			"unable to provision SubPath `../y`: must not contain '..'",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			code, r := b.runs(c.spec, "sh", "-c", "echo ran")
			if code != 128 || r.Reason != c.reason || r.Message != c.want || b.stdout.String() != "" {
				t.Errorf("%d, %+v, %q", code, r, b.stdout)
			}
		})
	}
}

func TestTheContainerSeesThePodsNamesAndAddresses(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	ecs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v4/x/task" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		_, _ = io.WriteString(
			w,
			`{"Containers":[{"Name":"burstlet-init"},{"Name":"c","Networks":[{"IPv4Addresses":["10.0.1.7"],"IPv6Addresses":["fd00::7"]}]}]}`,
		)
	}))
	defer ecs.Close()
	b.env = append(b.env, envMetadata+"="+ecs.URL+
		"/v4/x", EnvHostname+"=web-0 web-0.sub.ns.svc.cluster.local", "HOSTNAME=ip-10-0-1-7",
		"POD_IP="+LatePodIP, "ALL=x:"+LatePodIPs+":"+LateHostIP, "BURSTLET_POD={}")
	code, _ := b.runs(Spec{
		Hosts: &Hosts{Aliases: []HostAlias{{IP: "1.2.3.4", Hostnames: []string{"a", "b"}}}},
		DNS: &DNS{
			Policy: DNSCluster, ClusterServers: []string{"172.20.0.10"}, ClusterSearches: []string{"ns.svc.cluster.local"},
			Options: []string{"ndots:2"},
		},
	}, "sh", "-c", `echo $POD_IP $ALL $HOSTNAME "$1"; env | grep -c BURSTLET_`, "sh", LatePodIP)
	if want := "10.0.1.7 x:10.0.1.7,fd00::7:10.0.1.7 web-0 10.0.1.7\n0\n"; code != 1 || b.stdout.String() != want {
		t.Errorf("%d, %q, want %q", code, b.stdout, want)
	}
	kernel, err := os.Hostname()
	must(t, err)
	if hosts, want := b.read("etc/hosts"), "10.0.1.7\tweb-0.sub.ns.svc.cluster.local\tweb-0\t"+kernel+
		"\n"; !strings.Contains(hosts, want) || !strings.HasSuffix(hosts, "1.2.3.4\ta\tb\n") {
		t.Errorf("hosts: %q", hosts)
	}
	want := "search ns.svc.cluster.local eu-central-1.compute.internal\nnameserver 172.20.0.10\noptions ndots:2\n"
	if got := b.read("etc/resolv.conf"); got != want {
		t.Errorf("resolv.conf: %q", got)
	}
}

func TestSIGTERMRunsPreStopAndThenEndsTheContainer(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start(Spec{Grace: 600, StopSignal: "SIGUSR1", PreStop: exits("echo hook >>" + b.path("order"))},
		"sh", "-c", `trap 'echo signal >>`+b.path("order")+`; exit 7' USR1; echo up; while :; do sleep 0.05; done`)
	b.says("up")
	b.signal(syscall.SIGTERM)
	if code, r := b.end(); code != 7 || r != (Report{Exit: 7}) {
		t.Errorf("%d, %+v", code, r)
	}
	if got := b.read("order"); got != "hook\nsignal\n" {
		t.Errorf("%q", got)
	}
}

func TestTheGraceBoundsHookAndContainer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec Spec
		argv string
		min  time.Duration
	}{
		"one that does not listen": {Spec{Grace: 3}, "trap '' TERM", 3 * time.Second},
		"behaviour 23: two seconds are the least": {
			Spec{Grace: 0, PreStop: exits("sleep 1000")}, "trap '' TERM", 2 * time.Second,
		},
		"a hook is cut, and two seconds remain": {
			Spec{Grace: 1, PreStop: exits("sleep 1000")}, "trap '' TERM", 3 * time.Second,
		},
		"behaviour 2: a hook ends with its container": {
			Spec{Grace: 1000, PreStop: exits(">$BOX/hooked; sleep 1000")},
			"(until [ -e $BOX/hooked ]; do sleep 0.05; done; kill -9 $$)&", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.env = append(b.env, "BOX="+b.dir)
			b.start(c.spec, "sh", "-c", c.argv+"\necho up; while :; do sleep 0.05; done")
			b.says("up")
			begun := time.Now()
			b.signal(syscall.SIGTERM)
			code, _ := b.end()
			if took := time.Since(begun); code != 137 || took < c.min || took > patience {
				t.Errorf("%d after %s", code, took)
			}
		})
	}
}

func TestOtherSignalsAreTheContainers(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start(Spec{Grace: 5}, "sh", "-c", `trap 'echo hup' HUP; trap 'exit 9' INT; echo up; while :; do sleep 0.05; done`)
	b.says("up")
	b.signal(syscall.SIGHUP)
	b.says("hup")
	b.signal(syscall.SIGINT)
	if code, _ := b.end(); code != 9 {
		t.Errorf("exit %d", code)
	}
}

func TestAFailedProbeEndsTheContainer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec Spec
		want Report
	}{
		"liveness": {
			Spec{Liveness: probing("echo sick; exit 1")}, Report{Exit: 143, Probe: "Liveness probe failed: sick\n"},
		},
		"startup": {Spec{Startup: probing("echo down; exit 1"), Liveness: probing("exit 1")}, Report{
			Exit: 143, Probe: "Startup probe failed: down\n",
		}},
		"liveness after start": {
			Spec{Startup: probing("exit 0"), Liveness: probing("exit 1")}, Report{Exit: 143, Probe: "Liveness probe failed: "},
		},
		"late": {
			Spec{Liveness: probing("sleep 1000", func(p *Probe) { p.Timeout = 1 })},
			Report{Exit: 143, Probe: `Liveness probe failed: command timed out: "sh -c sleep 1000" timed out after 1s`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.spec.Grace = 30
			b := newBox(t)
			if code, r := b.runs(c.spec, "sleep", "1000"); code != 143 || r != c.want {
				t.Errorf("%d, %+v", code, r)
			}
		})
	}
}

func TestAContainerThatFailedAProbeDoesNotEndWell(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	code, r := b.runs(Spec{Grace: 600, Liveness: probing("[ ! -e " + b.path("up") + " ]")},
		"sh", "-c", "trap 'exit 0' TERM; >"+b.path("up")+"; while :; do sleep 0.05; done")
	if code != 143 || r.Exit != 0 || r.Probe == "" {
		t.Errorf("%d, %+v", code, r)
	}
}

func TestAProbesOwnGraceCounts(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	begun := time.Now()
	code, _ := b.runs(Spec{
		Grace: 1000, Liveness: probing("[ ! -e "+b.path("up")+" ]", func(p *Probe) { p.Grace = new(int64(1)) }),
	},
		"sh", "-c", "trap '' TERM; >"+b.path("up")+"; while :; do sleep 0.05; done")
	if took := time.Since(begun); code != 137 || took > patience {
		t.Errorf("%d after %s", code, took)
	}
}

func TestAShorterGraceReplacesALongerOne(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start(Spec{Grace: 2, Liveness: probing("[ ! -e "+b.path("up")+" ]", func(p *Probe) { p.Grace = new(int64(1000)) })},
		"sh", "-c", "trap 'echo asked' TERM; >"+b.path("up")+"; while :; do sleep 0.05; done")
	b.says("asked")
	begun := time.Now()
	b.signal(syscall.SIGTERM)
	code, r := b.end()
	if took := time.Since(begun); code != 137 || took > patience || r.Probe == "" {
		t.Errorf("%d after %s: %+v", code, took, r)
	}
}

func TestReadinessWaitsForPostStartAndFollowsItsProbe(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start(Spec{
		Grace:     5,
		PostStart: exits("while [ ! -e " + b.path("hooked") + " ]; do sleep 0.05; done"),
		Readiness: probing("cat " + b.path("ready")),
	}, "sh", "-c", "echo up; exec sleep 1000")
	b.says("up")
	wait.Holds(t, patience, "it says what it waits for", func() bool {
		ok, text := b.health()
		if ok {
			t.Fatalf("healthy: %q", text)
		}
		return text == "the postStart hook has not finished"
	})
	b.write("ready", "yes")
	b.write("hooked", "")
	wait.Holds(t, patience, "healthy", func() bool { ok, _ := b.health(); return ok })
	must(t, os.Remove(b.path("ready")))
	wait.Holds(t, patience, "unhealthy", func() bool { ok, _ := b.health(); return !ok })
	if _, text := b.health(); !strings.HasPrefix(text, "Readiness probe failed: cat: ") {
		t.Errorf("%q", text)
	}
	b.signal(syscall.SIGTERM)
	b.end()
}

func TestAFailedPostStartEndsTheContainer(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	code, r := b.runs(
		Spec{Grace: 600, PostStart: exits("echo no; exit 2"), PreStop: exits("echo pre >" + b.path("pre"))}, "sleep", "1000",
	)
	if code != 143 || r.Reason != ReasonPostStartHook || r.Hook == nil {
		t.Fatalf("%d, %+v", code, r)
	}
	want := `Exec lifecycle hook ([sh -c echo no; exit 2]) for Container "c" in Pod "p_ns(u)" failed - ` +
		`error: command 'sh -c echo no; exit 2' exited with 2: , message: "no\n"`
	if got := r.Hook.Message("c", "p_ns(u)"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if b.read("pre") != "pre\n" {
		t.Error("preStop did not run")
	}
}

func TestTheTerminationMessageIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		spec Spec
		argv string
		want Report
	}{
		"of a user": {
			Spec{Identity: Identity{UID: new(int64(1000))}}, "echo why >$1; exit 1", Report{Exit: 1, Message: "why\n"},
		},
		"the end of a long one": {
			Spec{}, "(printf x; yes | head -c 4095; ) >$1; printf z >>$1", Report{Message: strings.Repeat("y\n", 2047) + "yz"},
		},
		"the log after failure": {Spec{MessageFromLogs: true}, "exit 1", Report{Exit: 1, FromLogs: true}},
		"no log after success":  {Spec{MessageFromLogs: true}, "exit 0", Report{}},
		"no link is followed": {
			Spec{},
			"rm $1; ln -s /etc/passwd $1",
			Report{Message: "Error on reading termination log FILE: open FILE: too many levels of symbolic links"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			_, r := b.runs(c.spec, "sh", "-c", c.argv, "sh", b.path("termination-log"))
			c.want.Message = strings.ReplaceAll(c.want.Message, "FILE", b.path("termination-log"))
			if r != c.want {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// children are the live and dead children of a process, as this machine sees them.
func children(t *testing.T, pid int) []string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	must(t, err)
	return strings.Fields(string(b))
}

func TestOrphansAreReapedAndEndWithTheContainer(t *testing.T) {
	t.Parallel()
	for name, shared := range map[string]bool{"PID 1": false, "shared processes": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			mark := b.path("sleep-forever")
			must(t, os.Symlink("/bin/sleep", mark))
			must(t, syscall.Mkfifo(b.path("fifo"), 0o666))
			b.sharedPIDs = shared
			b.start(Spec{Grace: 5}, "sh", "-c",
				`(sleep 0.1 & sleep 0.1 &) ; (setsid `+mark+` 1000 &) ; echo up; read x <`+b.path("fifo")+`; exit 4`)
			b.says("up")
			wait.Holds(t, patience, "the orphans are reaped", func() bool { return len(children(t, b.cmd.Process.Pid)) <= 2 })
			b.signal(syscall.SIGTERM)
			if code, _ := b.end(); code != 143 {
				t.Errorf("exit %d", code)
			}
			// What was killed is gone a moment later.
			wait.Holds(t, patience, "nothing is left", func() bool { return exec.Command("pgrep", "-f", mark).Run() != nil })
		})
	}
}

func TestPartsOfVolumesAreLinked(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	must(t, os.MkdirAll(b.path("vol/data"), 0o755))
	b.write("vol/data/f", "text")
	must(t, os.MkdirAll(b.path("etc/app"), 0o755))
	b.write("etc/app/hidden", "of the image")
	b.env = append(b.env, "POD_NAME=web-0")
	code, r := b.runs(Spec{SubPaths: []SubPath{
		{MountPath: b.path("etc/app"), Volume: b.path("vol"), Path: "data"},
		{MountPath: b.path("log"), Volume: b.path("vol"), Path: "logs/$(POD_NAME)", Expand: true},
	}}, "sh", "-c", "cat "+b.path("etc/app/f")+"; ls "+b.path("etc/app")+"; echo x >"+b.path("log/y"))
	if code != 0 || b.stdout.String() != "textf\n" || b.read("vol/logs/web-0/y") != "x\n" {
		t.Errorf("%d, %q, %+v", code, b.stdout, r)
	}
}

func TestVolumesInMemoryAreTheGroups(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	must(t, os.Mkdir(b.path("vol"), 0o755))
	must(t, os.Chmod(b.path("vol"), 0o1777|os.ModeSticky))
	code, r := b.runs(Spec{InMemory: &InMemory{Group: 1234, Paths: []string{b.path("vol")}}},
		"sh", "-c", "touch "+b.path("vol/f")+"; stat -c '%A %g' "+b.path("vol")+"; stat -c %g "+b.path("vol/f"))
	if code != 0 || b.stdout.String() != "drwxrwsrwt 1234\n1234\n" {
		t.Errorf("%d, %q, %+v", code, b.stdout, r)
	}
	if _, r := b.runs(
		Spec{InMemory: &InMemory{Paths: []string{b.path("none")}}}, "true",
	); !strings.Contains(r.Message, "fsGroup of ") {
		t.Errorf("%+v", r)
	}
}

func TestMountsBehindLinksAreNotEmptied(t *testing.T) {
	b := newBox(t)
	must(t, os.MkdirAll(b.path("real/mount"), 0o755))
	must(t, os.Mkdir(b.path("vol"), 0o755))
	must(t, os.Symlink("real", b.path("link")))
	must(t, syscall.Mount("tmpfs", b.path("real/mount"), "tmpfs", 0, ""))
	defer func() { must(t, syscall.Unmount(b.path("real/mount"), 0)) }()
	b.write("real/mount/precious", "x")
	_, r := b.runs(Spec{SubPaths: []SubPath{{MountPath: b.path("link/mount"), Volume: b.path("vol"), Path: "."}}}, "true")
	if !strings.Contains(r.Message, "is a mount of the container") || b.read("real/mount/precious") != "x" {
		t.Errorf("%+v", r)
	}
}

func TestATerminalIsTheContainers(t *testing.T) {
	b := newBox(t)
	orders, err := Spec{Identity: Identity{UID: new(int64(1000))}, MessagePath: b.path("log")}.Encode()
	must(t, err)
	cmd := exec.Command(
		"/proc/self/exe", CommandSupervise, "--", "sh", "-c",
		"echo to-tty >/dev/tty; stty size; stat -c %u $(tty); read x; echo got $x",
	)
	cmd.Env = append(b.env, EnvSupervise+"="+orders)
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 33, Cols: 44})
	must(t, err)
	defer terminal.Close()
	go func() {
		buf := make([]byte, 1000)
		for {
			n, err := terminal.Read(buf)
			_, _ = b.stdout.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	b.says("to-tty\r\n33 44\r\n1000\r\n")
	_, err = terminal.WriteString("line\n")
	must(t, err)
	b.says("got line")
	must(t, cmd.Wait())
}

func TestTheSocketIsForRootAlone(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start(
		Spec{Grace: 5, Identity: Identity{UID: new(int64(1000))}}, "sh", "-c", "ls "+b.path("run")+"; echo up; sleep 1000",
	)
	b.says("up")
	info, err := os.Stat(filepath.Join(b.path("run"), AgentSocket))
	must(t, err)
	dir, err := os.Stat(b.path("run"))
	must(t, err)
	if info.Mode().Perm() != 0o600 || dir.Mode().Perm() != 0o700 || b.stdout.String() != "up\n" {
		t.Errorf("%s, %s, %q", info.Mode(), dir.Mode(), b.stdout)
	}
	conn, err := net.Dial("unix", filepath.Join(b.path("run"), AgentSocket))
	must(t, err)
	must(t, conn.Close())
	b.signal(syscall.SIGTERM)
	b.end()
}

func TestAFailedPreStopIsTold(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start(Spec{Grace: 600, PreStop: exits("exit 6")}, "sh", "-c", "echo up; exec sleep 1000")
	b.says("up")
	b.signal(syscall.SIGTERM)
	if code, r := b.end(); code != 143 || r.PreStop == nil ||
		r.PreStop.Why != `error: command 'sh -c exit 6' exited with 6: , message: ""` {
		t.Errorf("%d, %+v", code, r)
	}
}

// TestAReadOnlyRoot: /etc is on a file system that takes nothing.
func TestAReadOnlyRoot(t *testing.T) {
	for name, c := range map[string]struct {
		spec Spec
		code int
		want string
	}{
		"nothing is asked for": {Spec{Hosts: &Hosts{}}, 0, ""},
		"hostAliases":          {Spec{Hosts: &Hosts{Aliases: []HostAlias{{"1.2.3.4", []string{"a"}}}}}, 128, "hostAliases: "},
		"dnsConfig":            {Spec{DNS: &DNS{Policy: DNSDefault}}, 128, "dnsPolicy and dnsConfig: "},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			must(t, syscall.Mount(b.path("etc"), b.path("etc"), "", syscall.MS_BIND, ""))
			defer func() { must(t, syscall.Unmount(b.path("etc"), syscall.MNT_DETACH)) }()
			must(t, syscall.Mount("", b.path("etc"), "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
			code, r := b.runs(c.spec, "true")
			if code != c.code || !strings.HasPrefix(r.Message, c.want) ||
				c.want != "" && !strings.HasSuffix(r.Message, "read-only file system") {
				t.Errorf("%d, %+v", code, r)
			}
		})
	}
}
