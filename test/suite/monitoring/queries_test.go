package monitoring

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// TestEveryQueryReturnsData: with a cluster, every kind of remote, pods that come and
// go and failures, no panel and no alert of the shipped files asks for what is not
// there.
func TestEveryQueryReturnsData(t *testing.T) {
	lane.From(t, lane.Gate)
	t.Parallel()
	need(t)
	w := newWorld(t)
	p := w.prometheus()
	p.scrapes(t)
	w.begin()
	for i := range 2 { // a rate needs a change of what was scraped before
		w.round(i)
		p.scrapesAgain(t)
	}
	asked := slices.Concat(p.panels(t), alertQueries(t), cgroupManager())
	t.Logf("%d queries", len(asked))
	p.answers(t, asked, func(i int) {
		w.round(2 + i)
		p.scrapesAgain(t)
	})
	p.variables(t)
	p.rulesWork(t)
	p.findsCAdvisors(t)
}

// scrapes waits until all targets were scraped, by both ways.
func (p *prometheus) scrapes(t *testing.T) {
	t.Helper()
	wait.For(t, patience, "every target is scraped", func() error {
		for job, want := range map[string]float64{
			jobProcesses: 2, jobKubeletAPI: float64(len(nodeNames)), jobKubelet: float64(len(nodeNames)),
		} {
			up, err := p.data(fmt.Sprintf(`sum(up{job=%q})`, job))
			if err != nil || up[0].value != want {
				return fmt.Errorf("job %s: %v are up, want %v: %w", job, up, want, err)
			}
			if job == jobKubelet {
				continue // it has none of burstlet's own metrics
			}
			ready, err := p.query(fmt.Sprintf(`max by (node) (burstlet_node_ready{job=%q}) == 1`, job))
			if err != nil || len(ready) != len(nodeNames) {
				return fmt.Errorf("job %s: nodes %v: %w", job, ready, err)
			}
		}
		standby, err := p.data(`sum by (node, pod) (burstlet_node_state{state="standby"}) == 1`)
		if err != nil || len(standby) != 1 || standby[0].labels["node"] != nodeProcess ||
			standby[0].labels["pod"] != "burstlet-1" {
			return fmt.Errorf("standing by: %v, %w", standby, err)
		}
		return nil
	})
}

// scrapesAgain waits until every target was scraped anew.
func (p *prometheus) scrapesAgain(t *testing.T) {
	t.Helper()
	began := float64(time.Now().UnixMilli()) / 1000
	wait.For(t, patience, "every target is scraped anew", func() error {
		late, err := p.query(fmt.Sprintf(`timestamp(up) < %f`, began+0.5))
		if err == nil && len(late) > 0 {
			err = fmt.Errorf("not yet: %v", late)
		}
		return err
	})
}

// asking is a query with where it stands.
type asking struct {
	where, expr string
	// labels are those that its legend shows.
	labels []string
	// any is true where an empty answer is good: the whole of an alert.
	any bool
}

var legendLabel = regexp.MustCompile(`{{\s*(\w+)\s*}}`)

// panels are all queries of the dashboards, their variables filled in as Grafana does.
func (p *prometheus) panels(t *testing.T) (all []asking) {
	t.Helper()
	for _, d := range dashboards(t) {
		values := map[string]string{"job": jobProcesses, "__rate_interval": rateInterval, "__range": "1h"}
		for _, v := range d.Templating.List {
			if v.Name != "node" {
				continue
			}
			nodes, err := p.values(p.filled(v.query(), values))
			if err != nil {
				t.Errorf("%s: variable %s: %v", d.file, v.Name, err)
			}
			values["node"] = "(" + strings.Join(nodes, "|") + ")"
		}
		for _, panel := range d.Panels {
			for _, q := range panel.Targets {
				a := asking{
					where: fmt.Sprintf("%s, panel %q, query %s", d.file, panel.Title, q.RefID), expr: p.filled(q.Expr, values),
				}
				for _, label := range legendLabel.FindAllStringSubmatch(q.LegendFormat, -1) {
					a.labels = append(a.labels, label[1])
				}
				all = append(all, a)
			}
		}
	}
	return all
}

func (v variable) query() string {
	if q, ok := v.Query.(map[string]any); ok {
		return fmt.Sprint(q["query"])
	}
	return fmt.Sprint(v.Query)
}

func (p *prometheus) filled(expr string, values map[string]string) string {
	return anyVariable.ReplaceAllStringFunc(expr, func(name string) string { return values[strings.Trim(name, "${")] })
}

// alertQueries are what the alerts compare, and the whole of them.
func alertQueries(t *testing.T) (all []asking) {
	t.Helper()
	_, rules := rules(t)
	for _, r := range rules {
		if r.Record != "" {
			all = append(all, asking{where: "rule " + r.Record, expr: r.Record})
			continue
		}
		left := comparison.FindStringSubmatch(r.Expr)
		if left == nil {
			t.Fatalf("%s: %s", r.Alert, r.Expr)
		}
		a := asking{where: "alert " + r.Alert, expr: left[1]}
		for _, label := range usedLabel.FindAllStringSubmatch(fmt.Sprint(r.Annotations), -1) {
			a.labels = append(a.labels, label[1])
		}
		all = append(all, a, asking{where: "the whole of alert " + r.Alert, expr: r.Expr, any: true})
	}
	return all
}

const (
	// rateInterval is longer than a round takes: what a rate counts stays in its range
	// however slow the machine is.
	rateInterval = "15m"
	// moreRounds is how many rounds there are beside the first two. What burstlet counts
	// is there after one; that a target answered too late, and its series are gone until
	// it is scraped again, is mended by another.
	moreRounds = 5
)

// answers asks until each has had data. Between, there is more to see: a rate has none
// of what happened longer ago than its range. What never had data fails the test.
func (p *prometheus) answers(t *testing.T, asked []asking, more func(round int)) {
	t.Helper()
	for i := 0; ; i++ {
		failed := map[string]error{}
		asked = slices.DeleteFunc(asked, func(a asking) bool {
			err := p.answer(a)
			if err != nil {
				failed[a.where] = fmt.Errorf("%w: %s", err, a.expr)
			}
			return err == nil
		})
		if len(asked) == 0 {
			return
		}
		if i == moreRounds {
			for _, where := range slices.Sorted(maps.Keys(failed)) {
				t.Errorf("%s: %v", where, failed[where])
			}
			return
		}
		t.Logf("without data after %d rounds: %q", 2+i, slices.Sorted(maps.Keys(failed)))
		more(i)
	}
}

func (p *prometheus) answer(a asking) error {
	points, err := p.query(a.expr)
	switch {
	case err != nil:
		return err
	case a.any:
		return nil
	case len(points) == 0:
		return errNoData
	}
	for _, label := range a.labels {
		if !slices.ContainsFunc(points, func(p point) bool { return p.labels[label] != "" }) {
			return fmt.Errorf("the label %s is not in the answer", label)
		}
	}
	return nil
}

// variables: each offers what there is.
func (p *prometheus) variables(t *testing.T) {
	t.Helper()
	want := map[string][]string{
		"burstlet-overview.json job": {jobProcesses, jobKubeletAPI}, "burstlet-overview.json node": nodeNames,
		"burstlet-ecs.json job": {jobProcesses, jobKubeletAPI}, "burstlet-ecs.json node": {nodeECS},
		"burstlet-cri.json job": {jobProcesses, jobKubeletAPI}, "burstlet-cri.json node": {nodeCRI},
	}
	for _, d := range dashboards(t) {
		for _, v := range d.Templating.List {
			if v.Type != "query" {
				continue
			}
			got, err := p.values(p.filled(v.query(), map[string]string{"job": jobProcesses}))
			if name := d.file + " " + v.Name; err != nil || !slices.Equal(got, want[name]) {
				t.Errorf("%s: %v, %v, want %v", name, got, err, want[name])
			}
		}
	}
}

// rulesWork: Prometheus evaluates every rule, and what alerts say can be read.
func (p *prometheus) rulesWork(t *testing.T) {
	t.Helper()
	var data struct {
		Groups []struct {
			Rules []struct {
				Name, Health, LastError string
				Alerts                  []struct{ Annotations map[string]string }
			}
		}
	}
	if err := p.get("/api/v1/rules", nil, &data); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			n++
			if r.Health != "ok" || r.LastError != "" {
				t.Errorf("rule %s is %s: %s", r.Name, r.Health, r.LastError)
			}
			for _, a := range r.Alerts {
				for key, text := range a.Annotations {
					if strings.Contains(text, "<no value>") || strings.Contains(text, "error expanding") {
						t.Errorf("alert %s: %s is %q", r.Name, key, text)
					}
				}
			}
		}
	}
	if _, all := rules(t); n != len(all) {
		t.Errorf("%d rules are evaluated, want %d", n, len(all))
	}
}
