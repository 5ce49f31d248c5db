package main

import (
	"os"
	"strconv"
	"strings"
)

// busySeconds is the CPU time that this machine spent on anything since it started, all
// cores together, in seconds; 0 where /proc/stat does not tell. The processes of a suite
// cannot be asked: containers are no children of it.
func busySeconds() float64 {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	return parseBusy(string(data))
}

// parseBusy reads the first line of /proc/stat (man 5 proc_stat): user, nice, system,
// idle, iowait, irq, softirq and steal, in hundredths of a second.
func parseBusy(stat string) float64 {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0
	}
	var ticks uint64
	for i, field := range fields[1:9] {
		const idle, iowait = 3, 4
		if i == idle || i == iowait {
			continue
		}
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	const ticksPerSecond = 100
	return float64(ticks) / ticksPerSecond
}
