package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/class"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/test/kit/need"
)

// TestOOMKills: lines as kernels of several versions write them.
func TestOOMKills(t *testing.T) {
	const at = "6,%d,%d,-;%s"
	for name, tt := range map[string]struct {
		lines []string
		want  []host.OOMKill
	}{
		"6.1, of the host": {
			[]string{
				"stress invoked oom-killer: gfp_mask=0x140dca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0",
				"oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom," +
					"task_memcg=/user.slice/user-0.slice/session-3.scope,task=stress,pid=1043,uid=0",
				"Out of memory: Killed process 1043 (stress) total-vm:8192kB, anon-rss:3940552kB, file-rss:0kB, " +
					"shmem-rss:0kB, UID:0 pgtables:7776kB oom_score_adj:0",
				"oom_reaper: reaped process 1043 (stress), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB",
			},
			[]host.OOMKill{{Process: "stress", PID: 1043}},
		},
		"6.1, of a container": {
			[]string{
				"manager invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=999",
				"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=ef80,mems_allowed=0," +
					"oom_memcg=/kubepods/burstable/pod1,task_memcg=/kubepods/burstable/pod1/ef80,task=manager,pid=966,uid=0",
				"Memory cgroup out of memory: Killed process 966 (manager) total-vm:753kB, anon-rss:64kB, file-rss:0kB, " +
					"shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:999",
			},
			nil,
		},
		// The kernel writes the lines before it at most ten times in five seconds.
		"6.1, the line that is never left out": {
			[]string{"Out of memory: Killed process 7 (a b) (c) total-vm:1kB, anon-rss:1kB"},
			[]host.OOMKill{{Process: "a b) (c", PID: 7}},
		},
		"6.1, the process that asked": {
			[]string{"Out of memory (oom_kill_allocating_task): Killed process 8 (x) total-vm:1kB"},
			[]host.OOMKill{{Process: "x", PID: 8}},
		},
		"6.1, a cgroup that is killed as a whole is told of once": {
			[]string{
				"x invoked oom-killer: gfp_mask=0x1",
				"Out of memory: Killed process 20 (server) total-vm:1kB",
				"Tasks in /kubepods.slice/c are going to be killed due to memory.oom.group set",
				"Out of memory: Killed process 20 (server) total-vm:1kB",
				"Out of memory: Killed process 21 (worker) total-vm:1kB",
				"y invoked oom-killer: gfp_mask=0x1",
				"Out of memory: Killed process 30 (other) total-vm:1kB",
			},
			[]host.OOMKill{{Process: "server", PID: 20}, {Process: "other", PID: 30}},
		},
		"4.19, of the host, by a child of what was chosen": {
			[]string{
				"java invoked oom-killer: gfp_mask=0x6200ca(GFP_HIGHUSER_MOVABLE), nodemask=(null), order=0, oom_score_adj=0",
				"Out of memory: Kill process 1532 (badsysprogram) score 919 or sacrifice child",
				"Killed process 1533 (child) total-vm:1641388kB, anon-rss:1595164kB, file-rss:76kB, shmem-rss:0kB",
				"Killed process 1534 (another) total-vm:1641388kB",
			},
			[]host.OOMKill{{Process: "child", PID: 1533}},
		},
		"4.8, of a container": {
			[]string{
				"Task in /docker/2e08 killed as a result of limit of /docker/2e08",
				"Memory cgroup out of memory: Kill process 1381 (gunpowder-memho) score 1046 or sacrifice child",
				"Killed process 1381 (gunpowder-memho) total-vm:2121528kB, anon-rss:18624kB, file-rss:2140kB, shmem-rss:0kB",
			},
			nil,
		},
		"3.10": {
			[]string{
				"Out of memory: Kill process 7542 (java) score 613 or sacrifice child",
				"Killed process 7542 (java), UID 997, total-vm:5284436kB, anon-rss:2331224kB, file-rss:0kB, shmem-rss:0kB",
			},
			[]host.OOMKill{{Process: "java", PID: 7542}},
		},
		"2.6.32": {
			[]string{
				"Out of memory: Kill process 20035 (python) score 613 or sacrifice child",
				"Killed process 20035, UID 500, (python) total-vm:5284436kB, anon-rss:2331224kB, file-rss:0kB",
			},
			[]host.OOMKill{{Process: "python", PID: 20035}},
		},
		"words in the middle, and no number": {
			[]string{
				"drv: Out of memory: Killed process 1 (init)",
				"Out of memory: Killed process 99999999999999999999 (init)",
				"Out of memory and no killable processes...",
			},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var p oomParser
			var got []host.OOMKill
			for i, text := range tt.lines {
				r, ok := parseKernelRecord(fmt.Appendf(nil, at, i, 1000*i, text))
				if !ok {
					t.Fatalf("no record: %s", text)
				}
				if kill, is := p.kill(r); is {
					got = append(got, kill)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("kills (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOOMKillOfAGroupEnds: what is killed later is another kill, though its first line is missing.
func TestOOMKillOfAGroupEnds(t *testing.T) {
	var p oomParser
	for _, line := range []string{
		"6,1,1000000,-;Tasks in /c are going to be killed due to memory.oom.group set",
		"6,2,1000010,-;Out of memory: Killed process 20 (server) total-vm:1kB",
	} {
		if r, _ := parseKernelRecord([]byte(line)); r.sequence == 0 {
			t.Fatal("no record")
		} else if kill, is := p.kill(r); is {
			t.Errorf("told: %+v", kill)
		}
	}
	r, _ := parseKernelRecord([]byte("6,3,2000001,-;Out of memory: Killed process 30 (other) total-vm:1kB"))
	if kill, is := p.kill(r); !is || kill.PID != 30 {
		t.Errorf("a second later: %+v, %v", kill, is)
	}
}

// TestKernelRecord: what stands in /dev/kmsg, what processes write there among it.
func TestKernelRecord(t *testing.T) {
	for line, want := range map[string]*kernelRecord{
		"7,160,424069,-;pci_root: host bridge window": {160, 424069 * time.Microsecond, true, "pci_root: host bridge window"},
		"3,5,1,c,caller=T12;a;b":                      {5, time.Microsecond, true, "a;b"},
		"12,6,1,-;from a process":                     {6, time.Microsecond, false, "from a process"},
		" SUBSYSTEM=acpi;x":                           nil,
		"6,1;x":                                       nil,
		"6,-1,2,-;x":                                  nil,
		"no record":                                   nil,
		"":                                            nil,
	} {
		got, ok := parseKernelRecord([]byte(line))
		if ok != (want != nil) || ok && got != *want {
			t.Errorf("%q: %+v, %v", line, got, ok)
		}
	}
	r, _ := parseKernelRecord([]byte("11,6,1,-;Out of memory: Killed process 1 (init) total-vm:1kB"))
	if kill, is := new(oomParser).kill(r); is {
		t.Errorf("what a process wrote is believed: %+v", kill)
	}
}

// fakeKernelLog is a Host whose kernel's log is a pipe: what stands in it is read once.
func fakeKernelLog(t *testing.T) (h *Host, write func(sequence int, text string)) {
	t.Helper()
	dev, proc := t.TempDir(), t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dev, "kmsg"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dev, "kmsg"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	putFile(t, proc+"/sys/kernel/random/boot_id", "boot-1\n")
	return New(Options{DevRoot: dev, ProcRoot: proc}), func(sequence int, text string) {
		t.Helper()
		if _, err := fmt.Fprintf(f, "6,%d,%d,-;%s\n", sequence, sequence, text); err != nil {
			t.Fatal(err)
		}
	}
}

func oomLine(pid int, name string) string {
	return fmt.Sprintf("Out of memory: Killed process %d (%s) total-vm:8192kB", pid, name)
}

// TestAwaitOOM: what happened before the first question, and what is known, is not told; the
// rest in its order, each once, and after a reboot all since.
func TestAwaitOOM(t *testing.T) {
	h, write := fakeKernelLog(t)
	ask := func(after string, most int, want host.OOMKills) {
		t.Helper()
		got, err := h.AwaitOOM(t.Context(), host.OOMRequest{After: after, MaxKills: most})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after %q (-want +got):\n%s", after, diff)
		}
	}
	ask("", 9, host.OOMKills{Mark: "boot-1/0"}) // an empty log has an end, too
	write(10, "a line")
	write(11, oomLine(1, "before"))
	ask("", 9, host.OOMKills{Mark: "boot-1/12"})
	write(11, oomLine(1, "before"))
	write(12, oomLine(2, "first"))
	write(13, "a line")
	write(14, oomLine(3, "second"))
	ask("boot-1/12", 9, host.OOMKills{
		Mark: "boot-1/15", Kills: []host.OOMKill{{Process: "first", PID: 2}, {Process: "second", PID: 3}},
	})
	write(12, oomLine(2, "first"))
	write(14, oomLine(3, "second"))
	ask("boot-1/12", 1, host.OOMKills{Mark: "boot-1/13", Kills: []host.OOMKill{{Process: "first", PID: 2}}})
	write(3, oomLine(4, "since the boot"))
	ask("boot-0/12", 9, host.OOMKills{Mark: "boot-1/4", Kills: []host.OOMKill{{Process: "since the boot", PID: 4}}})

	answer := make(chan host.OOMKills)
	go func() {
		got, err := h.AwaitOOM(t.Context(), host.OOMRequest{After: "boot-1/20"})
		if err != nil {
			t.Error(err)
		}
		answer <- got
	}()
	write(19, oomLine(5, "known"))
	write(20, oomLine(6, "awaited"))
	want := host.OOMKills{Mark: "boot-1/21", Kills: []host.OOMKill{{Process: "awaited", PID: 6}}}
	if diff := cmp.Diff(want, <-answer); diff != "" {
		t.Errorf("awaited (-want +got):\n%s", diff)
	}
}

// TestAwaitOOMEnds: with its context, and where there is no log.
func TestAwaitOOMEnds(t *testing.T) {
	h, _ := fakeKernelLog(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	failed := make(chan error)
	go func() {
		_, err := h.AwaitOOM(ctx, host.OOMRequest{After: "boot-1/1"})
		failed <- err
	}()
	cancel(enough)
	if err := <-failed; !errors.Is(err, enough) {
		t.Errorf("its context ended: %v", err)
	}
	if _, err := h.AwaitOOM(t.Context(), host.OOMRequest{After: "boot-1/x"}); class.Of(err) != "Invalid" {
		t.Errorf("no mark: %v", err)
	}
	none := New(Options{DevRoot: t.TempDir()})
	_, err := none.AwaitOOM(t.Context(), host.OOMRequest{})
	if class.Of(err) != "Unsupported" || !strings.Contains(err.Error(), "kmsg") {
		t.Errorf("no log: %v", err)
	}
}

// TestKernelsOwnLog: records come one by one from this machine's kernel, which wakes who waits.
func TestKernelsOwnLog(t *testing.T) {
	need.Root(t)
	l, err := New(Options{}).openKernelLog()
	if err != nil {
		need.Missing(t, "the kernel's log is needed: %v", err)
	}
	defer func() { _ = l.file.Close() }()
	last := uint64(0)
	next := func(wait bool) (kernelRecord, error) {
		records, err := l.read(wait)
		if err != nil {
			return kernelRecord{}, err
		}
		if len(records) != 1 || records[0].sequence <= last && last > 0 {
			t.Fatalf("after %d: %+v", last, records)
		}
		last = records[0].sequence
		return records[0], nil
	}
	for err == nil {
		_, err = next(false)
	}
	if !errors.Is(err, errNoMoreNow) {
		t.Fatal(err)
	}
	text := fmt.Sprintf("burstlet: a test of /dev/kmsg, process %d", os.Getpid())
	written := make(chan error, 1)
	go func() { written <- os.WriteFile("/dev/kmsg", []byte(text+"\n"), 0) }()
	var r kernelRecord
	for r.text != text {
		if r, err = next(true); err != nil {
			t.Fatal(err)
		}
	}
	if r.kernel {
		t.Error("a line of this process counts as the kernel's")
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	if err := l.file.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Error(err)
	}
	for err = nil; err == nil; {
		_, err = l.read(true)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it does not end with its context: %v", err)
	}
}
