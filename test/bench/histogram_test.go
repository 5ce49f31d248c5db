package bench

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// measured are histograms that a kubelet and burstlet both serve: where the time of
// a pod goes.
var measured = []string{
	"kubelet_pod_worker_start_duration_seconds", "kubelet_pod_start_duration_seconds",
	"kubelet_pod_worker_duration_seconds",
	"kubelet_pod_status_sync_duration_seconds", "kubelet_runtime_operations_duration_seconds",
	"storage_operation_duration_seconds", "kubelet_cgroup_manager_duration_seconds",
	"kubelet_pleg_relist_duration_seconds",
}

// histogram is the sum of what was observed, in seconds, and how often.
type histogram struct{ sum, count float64 }

// histograms are those of measured, by name and labels.
type histograms map[string]histogram

// histograms are the node's as they are now.
func (n *node) histograms(b *testing.B) histograms {
	b.Helper()
	text, err := n.metrics(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	all := histograms{}
	for line := range strings.Lines(text) {
		series, number, _ := cutLast(strings.TrimSpace(line), " ")
		name, labels, _ := strings.Cut(series, "{")
		base, isSum := strings.CutSuffix(name, "_sum")
		base, isCount := strings.CutSuffix(base, "_count")
		if isSum == isCount || !slices.Contains(measured, base) {
			continue
		}
		value, err := strconv.ParseFloat(number, 64)
		if err != nil {
			b.Fatalf("metric %s: %v", series, err)
		}
		key := base
		if labels != "" {
			key += "{" + labels
		}
		h := all[key]
		if isSum {
			h.sum = value
		} else {
			h.count = value
		}
		all[key] = h
	}
	return all
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// since is what was observed after an earlier look.
func (h histograms) since(earlier histograms) histograms {
	later := histograms{}
	for key, now := range h {
		before := earlier[key]
		if now.count > before.count {
			later[key] = histogram{now.sum - before.sum, now.count - before.count}
		}
	}
	return later
}

// String has a line for each histogram: the mean and how often.
func (h histograms) String() string {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(h)) {
		fmt.Fprintf(&text, "%9.1f ms, %5.0f times: %s\n", 1000*h[key].sum/h[key].count, h[key].count, key)
	}
	return text.String()
}
