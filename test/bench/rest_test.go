package bench

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// helperName is the host helper's program on burstlet's hosts.
const helperName = "burstlet-helper"

// BenchmarkBesideKubeletAtRest looks at the kubelet and at burstlet over SSH at the
// same time, each with 60 pods that nothing happens to. What burstlet uses of its
// pods' host, in sshd and the host helper, is told beside what containerd uses.
func BenchmarkBesideKubeletAtRest(b *testing.B) {
	c := theCluster(b)
	theirs, theirHost := newKubelet(b, c, "bench-kubelet-rest")
	ours, ourHost := newSSHNode(b, c, "bench-beside-rest")
	theirs.createBurst(b, "rest", *besideBurst)
	ours.createBurst(b, "rest", *besideBurst)
	time.Sleep(settle)
	from := auditMark(b)
	start := time.Now()
	theirCPU, ourCPU := theirs.cpu(), ours.cpu()
	onTheirHost, onOurHost := cpuByName(b, theirHost.Pid()), cpuByName(b, ourHost.Pid())
	ours.profiled(b, "beside-rest", func() { time.Sleep(watched) })
	percent := func(used time.Duration) float64 { return 100 * used.Seconds() / time.Since(start).Seconds() }
	kubeletCPU, burstletCPU := percent(theirs.cpu()-theirCPU), percent(ours.cpu()-ourCPU)
	onTheirHost, onOurHost = since(
		onTheirHost, cpuByName(b, theirHost.Pid()),
	), since(onOurHost, cpuByName(b, ourHost.Pid()))
	b.Logf("on the kubelet's host: %v; on burstlet's: %v", onTheirHost, onOurHost)
	w := countWrites(b, ours.user, from, auditMark(b))
	if w.pods()+w.Events > 0 {
		b.Errorf("at rest burstlet wrote %+v", w)
	}

	b.Logf("%d pods on each", *besideBurst)
	results.tell(b, "kubelet at rest: CPU", kubeletCPU, "kubelet-rest-core-%")
	results.bar(b, "over SSH at rest: CPU, beside the kubelet's", burstletCPU, "beside-rest-core-%", atMost, kubeletCPU)
	results.tell(
		b, "the same, on the host: sshd and helper", percent(onOurHost["sshd"]+onOurHost[helperName]),
		"beside-rest-host-core-%",
	)
	results.tell(b, "containerd at rest: the kubelet's", percent(onTheirHost["containerd"]), "kubelet-containerd-core-%")
	results.tell(b, "containerd at rest: burstlet's", percent(onOurHost["containerd"]), "beside-containerd-core-%")
	kubeletRSS, burstletRSS := theirs.rss()/(1<<20), ours.rss()/(1<<20)
	results.tell(b, "kubelet at rest: RSS", kubeletRSS, "kubelet-rest-MiB")
	results.bar(
		b, "over SSH at rest: RSS, beside the kubelet's", burstletRSS, "beside-rest-MiB", atMost, barMemoryBeside*kubeletRSS,
	)
	results.tell(
		b, "the same without the pages of the program: the kubelet's", theirs.anonymous()/(1<<20), "kubelet-rest-anon-MiB",
	)
	results.tell(
		b, "the same without the pages of the program: burstlet's", ours.anonymous()/(1<<20), "beside-rest-anon-MiB",
	)
	theirs.deleteBurst(b, "rest", *besideBurst)
	ours.deleteBurst(b, "rest", *besideBurst)
}

// everyone is for cpuByName the whole machine.
const everyone = 0

// cpuByName is the processor time that the processes of a host, told by its PID 1,
// have used, by the name of the program.
func cpuByName(b *testing.B, init int) map[string]time.Duration {
	b.Helper()
	var own string
	if init != everyone {
		var err error
		if own, err = os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", init)); err != nil {
			b.Fatal(err)
		}
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		b.Fatal(err)
	}
	used := map[string]time.Duration{}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if init != everyone && !inHost(dir, own) {
			continue
		}
		name, nameErr := os.ReadFile(filepath.Join(dir, "comm"))
		cpu, cpuErr := cpuOf(pid)
		switch err := errors.Join(nameErr, cpuErr); {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH): // it has ended
		case err != nil:
			b.Fatal(err)
		default:
			// A worker of the kernel goes by what it does just now: "kworker/0:1-events".
			program, _, _ := strings.Cut(strings.TrimSpace(string(name)), "/")
			used[program] += cpu
		}
	}
	return used
}

// inHost says whether a process has a PID namespace. One that has ended, or that
// root may not look at, is in no host.
func inHost(dir, own string) bool {
	namespace, err := os.Readlink(filepath.Join(dir, "ns/pid"))
	return err == nil && namespace == own
}

// since is what was used between two looks.
func since(before, after map[string]time.Duration) map[string]time.Duration {
	used := map[string]time.Duration{}
	for name, cpu := range after {
		if cpu > before[name] {
			used[name] = cpu - before[name]
		}
	}
	return used
}

// mostUsed names the programs that used most of the processors while f ran, and how
// busy the processors were. Programs that ended meanwhile, such as runc, are only in
// the sum.
func mostUsed(b *testing.B, f func()) string {
	b.Helper()
	start, busy, before := time.Now(), machineBusy(b), cpuByName(b, everyone)
	f()
	used := since(before, cpuByName(b, everyone))
	names := slices.SortedFunc(maps.Keys(used), func(x, y string) int { return cmp.Compare(used[y], used[x]) })
	text := fmt.Sprintf("%.1f s of processors in %.1f s", (machineBusy(b) - busy).Seconds(), time.Since(start).Seconds())
	for _, name := range names[:min(len(names), 8)] {
		text += fmt.Sprintf(", %s %.1f", name, used[name].Seconds())
	}
	return text
}

// machineBusy is the time that all processors together have been at work.
func machineBusy(b *testing.B) time.Duration {
	b.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		b.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(first)
	if len(fields) < 8 || fields[0] != "cpu" {
		b.Fatalf("/proc/stat: %q", first)
	}
	var ticks int64
	for i, field := range fields[1:8] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			b.Fatalf("/proc/stat: %v", err)
		}
		if i != 3 && i != 4 { // idle, and waiting for a disk
			ticks += n
		}
	}
	return time.Duration(ticks) * clockTick
}
