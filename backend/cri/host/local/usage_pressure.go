package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// pressure reads what tasks of a cgroup waited for; nothing where cgroups are not of version
// 2 alone, or the kernel does not count it (psi=0, before Linux 4.20).
func (hs hierarchies) pressure(levels []string) (p host.Pressure, err error) {
	if !hs.pure() {
		return p, nil
	}
	for _, of := range []struct {
		file string
		into **host.Stalls
	}{{"cpu.pressure", &p.CPU}, {"memory.pressure", &p.Memory}, {"io.pressure", &p.IO}} {
		data, err := os.ReadFile(filepath.Join(hs[0].at(levels), of.file))
		if unknown(err) {
			continue
		}
		if err != nil {
			return host.Pressure{}, err
		}
		if *of.into, err = parseStalls(string(data)); err != nil {
			return host.Pressure{}, fmt.Errorf("read %s: %w", of.file, err)
		}
	}
	return p, nil
}

// parseStalls reads the lines of a file: "some avg10=0.00 avg60=0.00 avg300=0.00 total=0",
// and since Linux 5.13 for processors, too, "full …".
func parseStalls(text string) (*host.Stalls, error) {
	stalls := &host.Stalls{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		var err error
		switch fields[0] {
		case "some":
			stalls.Some, err = parseStallTime(fields[1:])
		case "full":
			stalls.Full, err = parseStallTime(fields[1:])
		}
		if err != nil {
			return nil, err
		}
	}
	return stalls, nil
}

func parseStallTime(pairs []string) (t host.StallTime, err error) {
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		switch key {
		case "avg10":
			t.Avg10, err = strconv.ParseFloat(value, 64)
		case "avg60":
			t.Avg60, err = strconv.ParseFloat(value, 64)
		case "avg300":
			t.Avg300, err = strconv.ParseFloat(value, 64)
		case "total":
			t.Total, err = strconv.ParseUint(value, 10, 64)
		}
		if err != nil {
			return host.StallTime{}, err
		}
	}
	return t, nil
}
