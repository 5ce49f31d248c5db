package containerhost

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
)

// remains finds what is left of a host on the machine: processes in the PID
// namespace or naming the directory, mounts, links, cgroups, the directory.
type remains struct {
	dir   string
	pidNS string
	ids   map[string]bool
}

func (r remains) check(t *testing.T) error {
	t.Helper()
	var found []error
	found = append(found, r.processes(t)...)
	all, err := namespaces.Mounts()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if strings.HasPrefix(m.Point, r.dir) {
			found = append(found, fmt.Errorf("mount %s", m.Point))
		}
		if m.FSType == "cgroup" || m.FSType == "cgroup2" {
			found = append(found, r.cgroups(m.Point)...)
		}
	}
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if link.Name == "cni0" || link.Name == linkName(r.dir) {
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
		if proc != fmt.Sprintf("/proc/%d", os.Getpid()) && (strings.Contains(string(cmdline), r.dir) || ns == r.pidNS) {
			found = append(found, fmt.Errorf("process %s: %q", proc, cmdline))
		}
	}
	return found
}

func (r remains) cgroups(root string) []error {
	var found []error
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && r.ids[entry.Name()] {
			found = append(found, fmt.Errorf("cgroup %s", path))
		}
		return nil
	})
	return found
}

func remainsOf(t *testing.T, h *Host, pods ...*pod) remains {
	t.Helper()
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", h.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	r := remains{dir: h.StateDir(), pidNS: ns, ids: map[string]bool{}}
	for _, p := range pods {
		r.ids[p.sandbox], r.ids[p.container] = true, true
	}
	return r
}

func TestStopLeavesNothing(t *testing.T) {
	for name, before := range map[string]func(*testing.T, *Host){
		"while containerd runs": func(*testing.T, *Host) {},
		"after containerd was killed": func(t *testing.T, h *Host) {
			if err := h.KillContainerd(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ForTest(t) // skips where Start could not be asked
			h, err := Start(t.Context(), Config{Linked: true})
			if err != nil {
				t.Fatal(err)
			}
			r := remainsOf(t, h, runPod(t, h, "one", "sleep 3600"), runPod(t, h, "two", "sleep 3600"))
			if r.check(t) == nil {
				t.Error("the check finds nothing of a running host")
			}
			before(t, h)
			if err := h.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			if err := r.check(t); err != nil {
				t.Errorf("left behind: %v", err)
			}
		})
	}
}

// ownerEnv makes this test binary the owner of a host that is then killed.
const ownerEnv = "BURSTLET_TEST_HOST_OWNER"

func TestKilledOwner(t *testing.T) {
	if os.Getenv(ownerEnv) == "1" {
		h := ForTest(t)
		p := runPod(t, h, "orphan", "sleep 3600")
		if _, err := fmt.Fprintf(os.Stdout, "\nowned %d %s %s %s\n", h.Pid(), h.StateDir(), p.sandbox, p.container); err != nil {
			t.Fatal(err)
		}
		<-t.Context().Done() // until killed
	}
	ForTest(t)
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
	r := remains{ids: map[string]bool{}}
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		var sandbox, container string
		if n, _ := fmt.Sscanf(lines.Text(), "owned %d %s %s %s", &pid, &r.dir, &sandbox, &container); n == 4 {
			r.ids[sandbox], r.ids[container] = true, true
		}
	}
	r.pidNS, err = os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err := errors.Join(err, owner.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	if err := owner.Wait(); err == nil {
		t.Fatal("the owner was not killed")
	}
	wait.For(t, patience, "processes to end with their owner", func() error {
		if left := r.check(t); left != nil && strings.Contains(left.Error(), "process ") {
			return left
		}
		return nil
	})
	if r.check(t) == nil {
		t.Fatal("nothing is left to sweep: this test would prove nothing")
	}
	if err := kind().Sweep(filepath.Dir(r.dir)); err != nil {
		t.Error(err)
	}
	if err := r.check(t); err != nil {
		t.Errorf("left behind after the sweep: %v", err)
	}
}
