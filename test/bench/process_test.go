package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/kit/child"
	"github.com/burstlet/burstlet/test/kit/launch"
	"github.com/burstlet/burstlet/test/kit/logs"
)

// stopWait bounds how long a program may take to end by itself.
const stopWait = 20 * time.Second

// process is a program under test.
type process struct {
	b    *testing.B
	name string
	log  logs.Buffer
	pid  int
	ran  running
}

// running is what runs: a child of the benchmark, or a kubelet, which ends with its
// host.
type running interface {
	Done() <-chan struct{}
	Err() error
}

// startProcess starts a program and ends it with the benchmark.
func startProcess(b *testing.B, name, path string, env []string, args ...string) *process {
	b.Helper()
	p := &process{b: b, name: name}
	b.Cleanup(p.keepLog)
	c := child.ForTest(b, child.Config{
		Name: name, Program: path, Args: args, Env: append(launch.Environ(os.Environ()), env...), Log: &p.log,
		Grace: stopWait,
	})
	p.ran, p.pid = c, c.Pid()
	return p
}

// keepLog shows the end of the log of a benchmark that failed, and writes all of
// it where profiles are asked for.
func (p *process) keepLog() {
	p.b.Helper()
	logs.Show(p.b, p.name, p.log.Tail(4000))
	if dir := os.Getenv(profileEnv); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, p.name+".log"), []byte(p.log.String()), 0o600); err != nil {
			p.b.Error(err)
		}
	}
}

// running fails the benchmark if the program has ended.
func (p *process) running() {
	p.b.Helper()
	select {
	case <-p.ran.Done():
		p.b.Fatalf("%s ended: %v\n%s", p.name, p.ran.Err(), p.log.Tail(4000))
	default:
	}
}

// kill ends the program with SIGKILL.
func (p *process) kill() {
	p.b.Helper()
	if err := p.ran.(*child.Child).Kill(); err != nil {
		p.b.Error(err)
	}
}

// rss is the program's memory in bytes, with the pages of its file.
func (p *process) rss() float64 { return p.memory("VmRSS:") }

// anonymous is the part of it that the kernel cannot take back and read again.
func (p *process) anonymous() float64 { return p.memory("RssAnon:") }

// memory is a line of /proc status, in bytes.
func (p *process) memory(what string) float64 {
	p.b.Helper()
	p.running()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		p.b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, what); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			if err != nil {
				p.b.Fatal(err)
			}
			return kib * 1024
		}
	}
	p.b.Fatalf("/proc status of %s has no %s", p.name, what)
	return 0
}

// cpu is the processor time that the program has used.
func (p *process) cpu() time.Duration {
	p.b.Helper()
	p.running()
	used, err := cpuOf(p.pid)
	if err != nil {
		p.b.Fatal(err)
	}
	return used
}

// clockTick is USER_HZ, which Linux fixes at 100 on all that Go runs on.
const clockTick = 10 * time.Millisecond

// cpuOf is the processor time that a process has used.
func cpuOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name in parentheses may hold anything; utime and stime are the 12th and
	// 13th fields after it.
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc stat of %d: %q", pid, text)
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc stat of %d: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}
