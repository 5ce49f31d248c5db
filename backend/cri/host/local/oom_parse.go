package local

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// groupKill is how long after a whole cgroup was doomed (memory.oom.group) its processes are
// still being killed: the kernel does it in one go.
const groupKill = time.Second

var (
	// oomKilled is of kernels since 5.1, and of those that took it over. The kernel says
	// "Memory cgroup out of memory" where the memory of a cgroup, not of the host, was short.
	oomKilled = regexp.MustCompile(`^(Out of memory|Memory cgroup out of memory)[^:]*: Killed process (\d+) \((.*)\)`)
	// oomChosen and oomKilledOld are of those before: the process that is killed may be a
	// child of the one that was chosen.
	oomChosen    = regexp.MustCompile(`^(Out of memory|Memory cgroup out of memory)[^:]*: Kill process \d+ `)
	oomKilledOld = regexp.MustCompile(`^Killed process (\d+)(?:, UID \d+,)? \((.*)\)`)
	oomGroup     = regexp.MustCompile(`^Tasks in .* are going to be killed due to memory\.oom\.group set`)
	oomBegins    = regexp.MustCompile(`^.* invoked oom-killer:`)
)

// kernelRecord is a record of /dev/kmsg (Documentation/ABI/testing/dev-kmsg).
type kernelRecord struct {
	sequence uint64
	// at is the time since the boot.
	at time.Duration
	// kernel is false for what a process wrote there.
	kernel bool
	text   string
}

// parseKernelRecord reads a line "priority,sequence,microseconds,flags[,...];text". It is
// false for other lines: those of a record's dictionary, which begin with a space.
func parseKernelRecord(line []byte) (kernelRecord, bool) {
	head, text, ok := bytes.Cut(line, []byte{';'})
	fields := strings.Split(string(head), ",")
	if !ok || len(fields) < 3 {
		return kernelRecord{}, false
	}
	var numbers [3]uint64
	for i := range numbers {
		n, err := strconv.ParseUint(fields[i], 10, 63)
		if err != nil {
			return kernelRecord{}, false
		}
		numbers[i] = n
	}
	const levels = 8 // a priority is eight times the facility, and the level
	return kernelRecord{
		sequence: numbers[1], at: time.Duration(numbers[2]) * time.Microsecond, //nolint:gosec // 63 bits
		kernel: numbers[0] < levels, text: string(text),
	}, true
}

// oomParser finds the processes that the kernel killed because the host had no memory left,
// in records that it is given in their order (cadvisor: oomparser).
type oomParser struct {
	// chosen is true after a process was chosen because of the host, and until one is killed.
	chosen bool
	// group is until when those of a cgroup are killed together: the first was told.
	group time.Duration
}

// kill returns the process that a record says was killed.
func (p *oomParser) kill(r kernelRecord) (host.OOMKill, bool) {
	if !r.kernel {
		return host.OOMKill{}, false
	}
	switch {
	case oomBegins.MatchString(r.text):
		p.group = 0
	case oomGroup.MatchString(r.text):
		p.group = r.at + groupKill
	}
	if m := oomChosen.FindStringSubmatch(r.text); m != nil {
		p.chosen = ofHost(m[1])
		return host.OOMKill{}, false
	}
	if m := oomKilled.FindStringSubmatch(r.text); m != nil {
		return killOf(m[2], m[3], ofHost(m[1]) && r.at >= p.group)
	}
	if m := oomKilledOld.FindStringSubmatch(r.text); m != nil {
		is := p.chosen
		p.chosen = false
		return killOf(m[1], m[2], is)
	}
	return host.OOMKill{}, false
}

// ofHost is true of the kernel's words for a lack of the host's own memory.
func ofHost(words string) bool { return strings.HasPrefix(words, "Out of memory") }

func killOf(pid, process string, is bool) (host.OOMKill, bool) {
	n, err := strconv.Atoi(pid)
	if err != nil || !is {
		return host.OOMKill{}, false
	}
	return host.OOMKill{Process: process, PID: n}, true
}
