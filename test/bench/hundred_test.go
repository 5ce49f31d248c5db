package bench

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/kit/launch"
	"github.com/burstlet/burstlet/test/kit/ports"
	"github.com/burstlet/burstlet/test/kit/wait"
)

var hundredNodes = flag.Int("hundrednodes", 100, "nodes of one process, for BenchmarkHundredNodes")

// BenchmarkHundredNodes runs many simulated nodes in one process, with the chart's
// defaults: one election for all, 50 requests a second for each. It looks at the start,
// and at the memory and the requests of nodes that nothing happens on.
func BenchmarkHundredNodes(b *testing.B) {
	c := theCluster(b)
	idle := c.requestsOf(b, watched)
	var config strings.Builder
	fmt.Fprintf(&config, `apiVersion: burstlet.dev/v1alpha1
kind: BurstletConfiguration
kubeconfig: %s
impersonateNode: true
node: {internalIP: 127.0.0.1}
kubeletAPI: {address: 127.0.0.1, selfSigned: true}
leaderElection: {enabled: true, namespace: default, name: hundred-nodes, kubeconfig: %s}
backend: {type: sim}
nodes:
`, c.KubeconfigPath(), c.KubeconfigPath())
	for i := range *hundredNodes {
		fmt.Fprintf(&config, "- {node: {name: hundred-%03d}, kubeletAPI: {port: %d}}\n", i, ports.Free(b))
	}
	start := time.Now()
	p := startProcess(b, "hundred", burstlet(b), nil, "run", "--config", launch.File(b, config.String()))
	wait.For(b, manyLimit, "all nodes Ready", func() error {
		p.running()
		nodes, err := c.client.CoreV1().Nodes().List(b.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		ready := 0
		for i := range nodes.Items {
			if strings.HasPrefix(nodes.Items[i].Name, "hundred-") && wait.NodeReady(&nodes.Items[i]) == nil {
				ready++
			}
		}
		if ready < *hundredNodes {
			return fmt.Errorf("%d are", ready)
		}
		return nil
	})
	n := float64(*hundredNodes)
	results.tell(
		b, fmt.Sprintf("%d nodes in a process: all Ready", *hundredNodes), time.Since(start).Seconds(), "hundred-ready-s",
	)
	time.Sleep(settle)
	began, used := time.Now(), p.cpu()
	asked := c.requestsOf(b, watched)
	percent := 100 * (p.cpu() - used).Seconds() / time.Since(began).Seconds()
	results.tell(b, "the same at rest: CPU", percent, "hundred-rest-core-%")
	results.tell(b, "the same at rest: RSS", p.rss()/(1<<20), "hundred-rest-MiB")
	results.tell(
		b, "the same at rest: memory without the pages of the program, per node", p.anonymous()/(1<<20)/n,
		"hundred-rest-anon-MiB/node",
	)
	var all float64
	for _, what := range slices.Sorted(maps.Keys(asked)) {
		perMinute := (asked[what] - idle[what]) * float64(time.Minute) / float64(watched) / n
		all += perMinute
		if perMinute >= 0.05 {
			b.Logf("%s: %.2f a minute and node", what, perMinute)
		}
	}
	results.tell(b, "the same at rest: requests a minute and node", all, "hundred-rest-requests/min/node")
}

// requestsOf counts what everybody asks the API server for in a time, by verb and resource.
func (c *cluster) requestsOf(b *testing.B, over time.Duration) map[string]float64 {
	b.Helper()
	before := c.requests(b)
	time.Sleep(over)
	after := c.requests(b)
	for what, n := range before {
		after[what] -= n
	}
	return after
}

func (c *cluster) requests(b *testing.B) map[string]float64 {
	b.Helper()
	body, err := c.client.CoreV1().RESTClient().Get().AbsPath("/metrics").Stream(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(body)
	if err = errors.Join(err, body.Close()); err != nil {
		b.Fatal(err)
	}
	asked := map[string]float64{}
	for _, m := range families["apiserver_request_total"].GetMetric() {
		label := map[string]string{}
		for _, l := range m.Label {
			label[l.GetName()] = l.GetValue()
		}
		asked[strings.TrimSuffix(
			label["verb"]+" "+label["resource"]+"/"+label["subresource"], "/",
		)] += m.GetCounter().GetValue()
	}
	return asked
}
