package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// groups returns the suites that run at the same time, in their order.
func groups(suites []suite) [][]suite {
	var all [][]suite
	for _, s := range suites {
		if last := len(all) - 1; s.beside && last >= 0 {
			all[last] = append(all[last], s)
			continue
		}
		all = append(all, []suite{s})
	}
	return all
}

// runTogether runs suites at the same time and says what became of each. What the first
// prints is seen at once, and what the others print, when they have ended.
func runTogether(ctx context.Context, suites []suite, dir string, deadline time.Time) ([]row, error) {
	rows, errs := make([]row, len(suites)), make([]error, len(suites))
	outs := make([]bytes.Buffer, len(suites))
	var group sync.WaitGroup
	for i, s := range suites {
		var out io.Writer = os.Stdout
		if i > 0 {
			out = &outs[i]
		}
		group.Go(func() { rows[i], errs[i] = s.run(ctx, filepath.Join(dir, strconv.Itoa(i)), deadline, out) })
	}
	group.Wait()
	for i := range outs {
		if _, err := outs[i].WriteTo(os.Stdout); err != nil {
			errs = append(errs, fmt.Errorf("print what suite %s printed: %w", suites[i].name, err))
		}
	}
	return told(rows), errors.Join(errs...)
}

// told names, in all rows but the one that took longest, the suite that they ran beside:
// their seconds are in its own, and so are the cores that were busy.
func told(rows []row) []row {
	longest := 0
	for i, r := range rows {
		if r.Seconds > rows[longest].Seconds {
			longest = i
		}
	}
	for i := range rows {
		if i != longest {
			rows[i].Beside = rows[longest].Suite
		}
	}
	return rows
}
