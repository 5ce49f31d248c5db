package taskstats

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/intask"
)

// said is an answer of the metadata endpoint in the form of the Docker Engine API, cut
// to one container.
const said = `{"id": {
 "read": "2026-01-02T12:00:00Z",
 "pids_stats": {"current": 3},
 "blkio_stats": {
  "io_service_bytes_recursive": [{"major": 259, "minor": 0, "op": "Read", "value": 100}, {"major": 259, "minor": 0, "op": "Write", "value": 200},
   {"major": 259, "minor": 0, "op": "Total", "value": 300}, {"major": 8, "minor": 0, "op": "read", "value": 5}],
  "io_serviced_recursive": [{"major": 259, "minor": 0, "op": "Read", "value": 3}, {"major": 259, "minor": 0, "op": "Write", "value": 4}]
 },
 "cpu_stats": {"cpu_usage": {"total_usage": 10, "usage_in_kernelmode": 3, "usage_in_usermode": 7},
  "throttling_data": {"periods": 20, "throttled_periods": 5, "throttled_time": 9}},
 "memory_stats": {"usage": 5000, "max_usage": 6000, "failcnt": 11, "limit": 8192, "stats": %s},
 "networks": {"eth1": {"rx_bytes": 1, "rx_packets": 2, "rx_errors": 3, "rx_dropped": 4, "tx_bytes": 5, "tx_packets": 6, "tx_errors": 7, "tx_dropped": 8}}
}}`

// TestDetail is the same of both versions of cgroups.
func TestDetail(t *testing.T) {
	want := &backend.UsageDetail{
		CPUUser: new(uint64(7)), CPUSystem: new(uint64(3)),
		CFS:         &backend.CFSUsage{Periods: 20, ThrottledPeriods: 5, ThrottledTime: 9},
		MemoryCache: new(uint64(3000)), MemorySwap: new(uint64(70)), MemoryMappedFile: new(uint64(30)),
		MemoryActiveFile: new(uint64(400)), MemoryInactiveFile: new(uint64(1000)), MostMemory: new(uint64(6000)),
		MemoryFailures: new(uint64(11)),
		Disks: []backend.DiskUsage{
			{Device: "259:0", ReadBytes: 100, WriteBytes: 200, Reads: 3, Writes: 4}, {Device: "8:0", ReadBytes: 5},
		},
	}
	began := time.Date(2026, 1, 2, 11, 0, 0, 0, time.UTC)
	facts := backend.PodFacts{Containers: []backend.ContainerFacts{{Name: "c", StartedAt: began}}}
	for version, memory := range map[string]string{
		"1": `{"cache": 1, "total_cache": 3000, "total_swap": 70, "total_mapped_file": 30, "total_active_file": 400, "total_inactive_file": 1000}`,
		"2": `{"file": 3000, "swap": 70, "file_mapped": 30, "active_file": 400, "inactive_file": 1000}`,
	} {
		stats := json.RawMessage(fmt.Sprintf(said, memory))
		got, err := Decode(intask.TaskStats{
			Task:  json.RawMessage(`{"Containers": [{"DockerId": "id", "Name": "c", "StartedAt": "2026-01-02T11:00:00Z"}]}`),
			Stats: stats,
		}, facts, func(at *time.Time) time.Time { return *at })
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Containers[0].Detail); diff != "" {
			t.Errorf("version %s: %s", version, diff)
		}
		network := []backend.InterfaceUsage{{
			Name: "eth1", RxBytes: new(uint64(1)), RxPackets: new(uint64(2)), RxErrors: new(uint64(3)),
			RxDropped: new(uint64(4)),
			TxBytes:   new(uint64(5)), TxPackets: new(uint64(6)), TxErrors: new(uint64(7)), TxDropped: new(uint64(8)),
		}}
		if diff := cmp.Diff(network, got.Network); diff != "" {
			t.Errorf("version %s: %s", version, diff)
		}
	}
}
