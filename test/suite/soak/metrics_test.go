package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scrapeLimit is how long an answer to a scrape may take.
const scrapeLimit = 10 * time.Second

// metrics are what a process tells of itself and its nodes.
type metrics map[string]*dto.MetricFamily

// scrape reads the health port's metrics.
func (w *world) scrape(i int) (metrics, error) {
	ctx, cancel := context.WithTimeout(w.Context(), scrapeLimit)
	defer cancel()
	resp, err := get(ctx, http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d/metrics", w.processes[i].health))
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	return families, errors.Join(err, resp.Body.Close())
}

// get is an answer with code 200.
func get(ctx context.Context, client *http.Client, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return nil, errors.Join(fmt.Errorf("%s: %s: %s", url, resp.Status, text), err, resp.Body.Close())
	}
	return resp, nil
}

// read is get for an answer of which nothing is kept.
func read(ctx context.Context, client *http.Client, url string) error {
	resp, err := get(ctx, client, url)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

// matching are the series with these labels, given as name, value, name, value...
func (m metrics) matching(name string, labels ...string) (found []*dto.Metric) {
	for _, series := range m[name].GetMetric() {
		has := map[string]string{}
		for _, l := range series.Label {
			has[l.GetName()] = l.GetValue()
		}
		ok := true
		for i := 0; i < len(labels); i += 2 {
			ok = ok && has[labels[i]] == labels[i+1]
		}
		if ok {
			found = append(found, series)
		}
	}
	return found
}

// value is the sum of the counters and gauges with these labels.
func (m metrics) value(name string, labels ...string) (sum float64) {
	for _, series := range m.matching(name, labels...) {
		sum += series.GetCounter().GetValue() + series.GetGauge().GetValue()
	}
	return sum
}

// buckets are those of a node's histogram, over all its series.
func (m metrics) buckets(name, node string) (all []bucket) {
	for _, series := range m.matching(name, "node", node) {
		for i, b := range series.GetHistogram().GetBucket() {
			if i == len(all) {
				all = append(all, bucket{atMost: b.GetUpperBound()})
			}
			all[i].count += float64(b.GetCumulativeCount())
		}
	}
	return all
}

// podWrites are the writes of pods that a node made: patches of their status and deletions.
func (m metrics) podWrites(node string) float64 {
	return m.value("burstlet_status_writes_total", "node", node, "result", "written") +
		m.value("burstlet_status_pod_deletes_total", "node", node, "result", "written")
}

// use is what a process has at a time.
type use struct {
	at                         time.Time
	memory, live, gophers, fds float64
}

func (m metrics) use() use {
	return use{
		time.Now(), m.value("process_resident_memory_bytes") / (1 << 20), m.value("go_gc_heap_live_bytes") / (1 << 20),
		m.value("go_goroutines"), m.value("process_open_fds"),
	}
}

// parts cuts samples of one number at times.
func parts(all []use, number func(use) float64, cuts []time.Time) [][]float64 {
	cut := make([][]float64, len(cuts)-1)
	for _, u := range all {
		for i := range cut {
			if !u.at.Before(cuts[i]) && u.at.Before(cuts[i+1]) {
				cut[i] = append(cut[i], number(u))
			}
		}
	}
	return cut
}
