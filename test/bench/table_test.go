package bench

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"text/tabwriter"
)

// results are the numbers of all benchmarks that ran.
var results table

// table collects numbers beside their bars.
type table struct {
	mu   sync.Mutex
	rows []row
}

type row struct{ what, got, bar, ratio, met string }

// better says on which side of its bar a number should be.
type better int

const (
	atLeast better = iota
	atMost
)

func (m better) String() string { return [...]string{"at least", "at most"}[m] }

// bar reports a number and its ratio to what it should be.
func (t *table) bar(b *testing.B, what string, got float64, unit string, side better, bar float64) {
	ratio := got / bar
	if bar == 0 {
		ratio = got // a bar of none: the number itself says how far it is
	}
	met := side == atLeast && got >= bar || side == atMost && got <= bar
	b.ReportMetric(got, unit)
	b.ReportMetric(ratio, unit+"/bar")
	verdict := "missed"
	if met {
		verdict = "met"
	}
	t.add(row{what, number(got) + " " + unit, side.String() + " " + number(bar), fmt.Sprintf("%.2f", ratio), verdict})
}

// tell reports a number that has no bar.
func (t *table) tell(b *testing.B, what string, got float64, unit string) {
	b.ReportMetric(got, unit)
	t.add(row{what, number(got) + " " + unit, "", "", ""})
}

func (t *table) add(r row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = append(t.rows, r)
}

func number(f float64) string { return fmt.Sprintf("%.4g", f) }

// print writes the table. It is a courtesy: the metrics say the same.
func (t *table) print(w io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.rows) == 0 {
		return
	}
	tabs := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tabs, "\nWHAT\tMEASURED\tBAR\tRATIO\t")
	for _, r := range t.rows {
		_, _ = fmt.Fprintf(tabs, "%s\t%s\t%s\t%s\t%s\n", r.what, r.got, r.bar, r.ratio, r.met)
	}
	_ = tabs.Flush()
}
