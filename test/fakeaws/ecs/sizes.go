package ecs

import (
	"strconv"
	"strings"
)

// steps is a row of the sizes: from, to and step in MiB.
type steps struct{ from, to, step int }

// sizes are the memory sizes by cpu units (ECS developer guide, "Task CPU and
// memory" under "Fargate task definition parameters").
var sizes = map[int][]steps{
	256:   {{512, 512, 1}, {1024, 2048, 1024}},
	512:   {{1024, 4096, 1024}},
	1024:  {{2048, 8192, 1024}},
	2048:  {{4096, 16384, 1024}},
	4096:  {{8192, 30720, 1024}},
	8192:  {{16384, 61440, 4096}},
	16384: {{32768, 122880, 8192}},
	32768: {{61440, 61440, 1}, {122880, 122880, 1}, {249856, 249856, 1}},
}

func validSize(cpu, memory int) bool {
	for _, s := range sizes[cpu] {
		if memory >= s.from && memory <= s.to && (memory-s.from)%s.step == 0 {
			return true
		}
	}
	return false
}

// parseSize reads "1024" or, with a unit, "1 vCPU" and "2 GB" (ECS API,
// RegisterTaskDefinition: cpu, memory).
func parseSize(s, unit string) (int, bool) {
	if n, err := strconv.Atoi(s); err == nil {
		return n, n > 0
	}
	num, ok := cutSuffixFold(s, unit)
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(num), 64)
	n := int(f * 1024)
	return n, err == nil && n > 0
}

func cutSuffixFold(s, suffix string) (string, bool) {
	if len(s) < len(suffix) || !strings.EqualFold(s[len(s)-len(suffix):], suffix) {
		return s, false
	}
	return s[:len(s)-len(suffix)], true
}

// checkSize is Fargate's check of a task's size.
func checkSize(cpu, memory *string) (int, int, *apiError) {
	if cpu == nil || memory == nil {
		return 0, 0, clientError("Fargate requires task definition to have cpu and memory at the task level.")
	}
	c, okC := parseSize(*cpu, "vCPU")
	m, okM := parseSize(*memory, "GB")
	if !okC || !okM || !validSize(c, m) {
		return 0, 0, clientError("No Fargate configuration exists for given values: %s CPU, %s memory. "+
			"See the Amazon ECS documentation for the valid values.", *cpu, *memory)
	}
	return c, m, nil
}
