package ecs

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Observed is what a real account was seen to do where AWS documents nothing. The zero
// value of each is what this server assumes.
type Observed struct {
	// RefusedExit is the exit code of a container that never can start: a number, or
	// "none".
	RefusedExit string
	// HealthEvery is how often the health of containers is sent to ECS.
	HealthEvery time.Duration
	// FlushEvery is how often the awslogs driver sends what it has.
	FlushEvery time.Duration
	// BlankLines says that the awslogs driver keeps empty lines.
	BlankLines bool
	// ExecMiB is what the agent of ECS Exec takes of a container's memory.
	ExecMiB int
}

// refusedExit is the code of a container that never can start, or that it has none.
func (o Observed) refusedExit(assumed int32) (code int32, codeless bool) {
	if o.RefusedExit == "" {
		return assumed, false
	}
	n, err := strconv.ParseInt(o.RefusedExit, 10, 32)
	return int32(n), err != nil
}

// observedRow is a row of what "burstlet doctor --try" writes.
type observedRow struct {
	Name, Seen, Verdict string
	Seconds             float64
}

// Observe takes what "burstlet doctor --try" wrote of a real account as timing and
// behaviour. It returns the names of rows that differ from what is assumed, and that this
// server does not follow.
func (c *Config) Observe(r io.Reader) (notFollowed []string, err error) {
	var file struct {
		Version int
		Rows    []observedRow
	}
	if err := json.NewDecoder(r).Decode(&file); err != nil {
		return nil, fmt.Errorf("read what was observed: %w", err)
	}
	if file.Version != 1 {
		return nil, fmt.Errorf("read what was observed: version %d, want 1", file.Version)
	}
	for _, row := range file.Rows {
		if row.Verdict == "unknown" {
			continue
		}
		if !c.observe(row) && row.Verdict != "agrees" {
			notFollowed = append(notFollowed, row.Name)
		}
	}
	return notFollowed, nil
}

// observe takes one row and is true if there is something to take.
func (c *Config) observe(row observedRow) bool {
	took := time.Duration(row.Seconds * float64(time.Second))
	switch row.Name {
	case "refused.exitCode":
		c.Observed.RefusedExit = row.Seen
	case "refused.task":
		c.Kindness.StopsRefused = row.Seen == "ends"
	case "health.delay":
		c.Observed.HealthEvery = max(time.Second, took-healthLate)
	case "logs.delay":
		c.Observed.FlushEvery = min(max(took, time.Second), flushEvery)
		c.Delays.Ingest = max(took-flushEvery, time.Millisecond)
	case "logs.blankLines":
		c.Observed.BlankLines = row.Seen == "kept"
	case "exec.32MiB":
		c.Kindness.ExecForFree = row.Seen == "runs"
	case "exec.64MiB":
		if row.Seen != "runs" {
			c.Observed.ExecMiB = 64
		}
	case "time.provision":
		c.Delays.Provision = took
	case "time.pull":
		c.Delays.Pull = took
	case "time.deprovision":
		c.Delays.Deprovision = took
	default:
		return false
	}
	return true
}
