package remotehost

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/remotehost/namespaces"
	"github.com/burstlet/burstlet/test/parts/statedir"
)

// remains finds what is left of a host on the machine: processes in the PID
// namespace or naming the directory, mounts, links, cgroups, the directory.
type remains struct{ dir, pidNS, cgroup, machineEnd string }

func remainsOf(t *testing.T, h *Host) remains {
	t.Helper()
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", h.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	return remains{dir: h.layout.dir, pidNS: ns, cgroup: h.Cgroup(), machineEnd: h.machineEnd()}
}

func (r remains) check(t *testing.T) error {
	t.Helper()
	found := r.processes(t)
	all, err := namespaces.Mounts()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if strings.HasPrefix(m.Point, r.dir) {
			found = append(found, fmt.Errorf("mount %s", m.Point))
		}
	}
	roots, err := namespaces.CgroupRoots()
	if err != nil {
		t.Fatal(err)
	}
	for _, root := range roots {
		if _, err := os.Stat(filepath.Join(root, r.cgroup)); err == nil {
			found = append(found, fmt.Errorf("cgroup %s in %s", r.cgroup, root))
		}
	}
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if link.Name == "cni0" || link.Name == wire || link.Name == r.machineEnd {
			found = append(found, fmt.Errorf("link %s", link.Name))
		}
	}
	if _, err := os.Stat(r.dir); !errors.Is(err, fs.ErrNotExist) {
		found = append(found, fmt.Errorf("directory %s is still there", r.dir))
	}
	return errors.Join(found...)
}

func (r remains) processes(t *testing.T) []error {
	t.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var found []error
	for _, proc := range procs {
		cmdline, _ := os.ReadFile(filepath.Join(proc, "cmdline"))
		ns, _ := os.Readlink(filepath.Join(proc, "ns/pid"))
		if strings.Contains(string(cmdline), r.dir) || ns == r.pidNS {
			found = append(found, fmt.Errorf("process %s: %q", proc, cmdline))
		}
	}
	return found
}

func TestStopLeavesNothing(t *testing.T) {
	session := func(t *testing.T, h *Host) (*exec.Cmd, error) {
		client := sshCommand(t.Context(), h, Root, "sleep 3600")
		return client, client.Start()
	}
	for name, before := range map[string]func(*testing.T, *Host) (client *exec.Cmd, err error){
		"while all runs": func(*testing.T, *Host) (*exec.Cmd, error) { return nil, nil },
		"after containerd was killed": func(t *testing.T, h *Host) (*exec.Cmd, error) {
			return nil, h.KillContainerd(t.Context())
		},
		"while a session is open": session,
		"while the link is cut": func(t *testing.T, h *Host) (*exec.Cmd, error) {
			h.Link().Cut()
			return session(t, h)
		},
		"while it is off": func(_ *testing.T, h *Host) (*exec.Cmd, error) { return nil, h.PowerOff() },
	} {
		t.Run(name, func(t *testing.T) {
			ForTest(t) // skips where Start could not be asked
			h, err := Start(t.Context(), Config{DiskBytes: 1 << 30, Linked: true})
			if err != nil {
				t.Fatal(err)
			}
			r := remainsOf(t, h)
			runPod(t, h, "one", "sleep 3600")
			runPod(t, h, "two", "sleep 3600")
			if r.check(t) == nil {
				t.Error("the check finds nothing of a running host")
			}
			client, err := before(t, h)
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			if client != nil && client.Wait() == nil {
				t.Error("the session ended well")
			}
			if err := r.check(t); err != nil {
				t.Errorf("left behind: %v", err)
			}
		})
	}
}

// ownerEnv makes this test binary the owner of a host that is then killed.
const ownerEnv = "BURSTLET_TEST_REMOTE_OWNER"

func TestKilledOwner(t *testing.T) {
	if os.Getenv(ownerEnv) == "1" {
		h := ForTest(t, func(c *Config) { c.Linked = true })
		runPod(t, h, "orphan", "sleep 3600")
		overSSH(t, h, Root, "nohup sleep 3600 >/dev/null 2>&1 </dev/null &")
		if _, err := fmt.Fprintf(
			os.Stdout, "\nowned %d %s %s %s\n", h.Pid(), h.layout.dir, h.Cgroup(), h.machineEnd(),
		); err != nil {
			t.Fatal(err)
		}
		<-t.Context().Done() // until killed
	}
	ForTest(t) // skips where no owner could start one
	owner := exec.Command(os.Args[0], "-test.run=^TestKilledOwner$", "-test.v")
	owner.Env = append(os.Environ(), ownerEnv+"=1")
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var r remains
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "owned %d %s %s %s", &pid, &r.dir, &r.cgroup, &r.machineEnd)
	}
	r.pidNS, err = os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err := errors.Join(err, owner.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	if err := owner.Wait(); err == nil {
		t.Fatal("the owner was not killed")
	}
	if r.check(t) == nil {
		t.Fatal("nothing is left to sweep: this test would prove nothing")
	}
	// At once: the next start may come while processes are still ending.
	if err := statedir.Sweep(filepath.Dir(r.dir), dirPrefix, marker, reclaim); err != nil {
		t.Error(err)
	}
	// Whoever inherits PID 1 reaps it when it likes.
	wait.For(t, patience, "nothing to be left", func() error { return r.check(t) })
}
