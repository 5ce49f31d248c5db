package monitoring

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/burstlet/burstlet/test/kit/child"
	"github.com/burstlet/burstlet/test/kit/ports"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// The jobs: alerts and dashboards look at the first. The shipped files are two ways to
// the same job; here they are beside each other.
const (
	jobProcesses  = "burstlet"
	jobKubeletAPI = "burstlet-kubelet-api"
	// jobKubelet is that of kube-prometheus, which scrapes nodes as kubelets.
	jobKubelet = "kubelet"
)

// scrapeInterval is also how long a target may take: one that is late is down, and its
// series are gone until it is scraped again.
const scrapeInterval = "3s"

// prometheus is one that scrapes often.
type prometheus struct{ url string }

// prometheus starts one with the shipped scrape configurations and rules.
func (w *world) prometheus() *prometheus {
	w.Helper()
	processes := shipped(w.T, "scrape.yaml", jobProcesses)
	var pods []map[string]any
	for i, port := range w.health {
		pods = append(pods, discovered(fmt.Sprintf("127.0.0.1:%d", port), map[string]string{
			"namespace": "burstlet", "pod_name": fmt.Sprint("burstlet-", i), "pod_phase": "Running",
			"pod_label_app_kubernetes_io_name": "burstlet", "pod_container_port_name": "healthz",
		}))
	}
	pods = append(
		pods,
		discovered(
			"127.0.0.1:1", map[string]string{"pod_name": "other", "pod_phase": "Running", "pod_container_port_name": "healthz"},
		),
	)
	processes["static_configs"] = pods
	nodes := shipped(w.T, "scrape-kubelet-api.yaml", jobKubeletAPI)
	nodes["static_configs"] = w.discoveredNodes()
	token := w.token()
	nodes["authorization"].(map[string]any)["credentials_file"] = token
	config, err := yaml.Marshal(map[string]any{
		"global": map[string]any{
			"scrape_interval": scrapeInterval, "scrape_timeout": scrapeInterval, "evaluation_interval": "1s",
		},
		"rule_files":     []string{ruleFilePath(w.T)},
		"scrape_configs": []any{processes, nodes, w.kubelets(token)},
	})
	w.must(err)
	file := writeFile(w.T, "prometheus.yml", "%s", config)
	promtool(w.T, "check", "config", file)
	address := fmt.Sprintf("127.0.0.1:%d", ports.Free(w.T))
	child.ForTest(w, child.Config{Program: "prometheus", Args: []string{
		"--config.file=" + file, "--storage.tsdb.path=" + w.TempDir(), "--web.listen-address=" + address, "--log.level=warn",
	}})
	p := &prometheus{url: "http://" + address}
	wait.For(w.T, patience, "Prometheus is ready", func() error { return p.get("/-/ready", nil, nil) })
	return p
}

// shipped is the one scrape configuration of a file, without its discovery: Debian
// builds Prometheus without that of Kubernetes.
func shipped(t *testing.T, name, job string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(prometheusDir, name))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		ScrapeConfigs []map[string]any `json:"scrape_configs"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.ScrapeConfigs) != 1 || file.ScrapeConfigs[0]["job_name"] != jobProcesses ||
		file.ScrapeConfigs[0]["kubernetes_sd_configs"] == nil {
		t.Fatalf("%s has %v", name, file.ScrapeConfigs)
	}
	config := file.ScrapeConfigs[0]
	delete(config, "kubernetes_sd_configs")
	config["job_name"] = job
	return config
}

// kubelets scrapes the nodes' cAdvisor as kube-prometheus does (its ServiceMonitor kubelet),
// with the same token.
func (w *world) kubelets(token string) map[string]any {
	w.Helper()
	job := shipped(w.T, "scrape-kubelet-api.yaml", jobKubelet)
	job["metrics_path"], job["honor_labels"], job["static_configs"] = "/metrics/cadvisor", true, w.discoveredNodes()
	job["authorization"].(map[string]any)["credentials_file"] = token
	job["relabel_configs"] = append(job["relabel_configs"].([]any), map[string]any{
		"source_labels": []string{"__metrics_path__"}, "target_label": "metrics_path",
	})
	return job
}

// discovered is a target with labels as the discovery of Kubernetes gives them.
func discovered(address string, meta map[string]string) map[string]any {
	labels := map[string]string{}
	for name, value := range meta {
		labels["__meta_kubernetes_"+name] = value
	}
	return map[string]any{"targets": []string{address}, "labels": labels}
}

// discoveredNodes are the targets that discovery makes of the cluster's Nodes: their
// InternalIP and the port of their kubelet API.
func (w *world) discoveredNodes() (targets []map[string]any) {
	w.Helper()
	nodes, err := w.client.CoreV1().Nodes().List(w.Context(), metav1.ListOptions{})
	w.must(err)
	for _, n := range nodes.Items {
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				targets = append(targets, discovered(fmt.Sprintf("%s:%d", a.Address, n.Status.DaemonEndpoints.KubeletEndpoint.Port),
					map[string]string{"node_name": n.Name, "node_label_type": n.Labels["type"]}))
			}
		}
	}
	return append(targets, discovered("127.0.0.1:1", map[string]string{"node_name": "real", "node_label_type": ""}))
}

// token returns a file with the token of Prometheus' ServiceAccount, which has the
// rights of rbac.yaml and no others.
func (w *world) token() string {
	w.Helper()
	meta := metav1.ObjectMeta{Name: "prometheus", Namespace: "monitoring"}
	_, err := w.client.CoreV1().Namespaces().Create(
		w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: meta.Namespace}}, metav1.CreateOptions{},
	)
	w.must(err)
	_, err = w.client.CoreV1().ServiceAccounts(meta.Namespace).Create(
		w.Context(), &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{},
	)
	w.must(err)
	out, err := w.cp.Command(w.Context(), "apply", "-f", filepath.Join(prometheusDir, "rbac.yaml")).CombinedOutput()
	if err != nil {
		w.Fatalf("apply rbac.yaml: %v\n%s", err, out)
	}
	review, err := w.client.CoreV1().ServiceAccounts(meta.Namespace).CreateToken(
		w.Context(), meta.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{},
	)
	w.must(err)
	return writeFile(w.T, "token", "%s", review.Status.Token)
}

// get asks the HTTP API; into may be nil.
func (p *prometheus) get(path string, query url.Values, into any) error {
	resp, err := http.Get(p.url + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if into == nil {
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s", resp.Status)
		}
		return nil
	}
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %w", resp.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s", answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}

// point is one series of an answer.
type point struct {
	labels map[string]string
	value  float64
}

// query returns what an expression is now, without what is not a number.
func (p *prometheus) query(expr string) ([]point, error) {
	var data struct {
		ResultType string
		Result     []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
	if err := p.get("/api/v1/query", url.Values{"query": {expr}}, &data); err != nil {
		return nil, err
	}
	if data.ResultType != "vector" {
		return nil, fmt.Errorf("it is a %s", data.ResultType)
	}
	var points []point
	for _, r := range data.Result {
		text, _ := r.Value[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		if !math.IsNaN(value) {
			points = append(points, point{r.Metric, value})
		}
	}
	return points, nil
}

var errNoData = fmt.Errorf("no data")

// data is query for what must have data.
func (p *prometheus) data(expr string) ([]point, error) {
	points, err := p.query(expr)
	if err == nil && len(points) == 0 {
		err = errNoData
	}
	return points, err
}

// values are those of a label of series, as a variable of a dashboard asks for them:
// label_values(SELECTOR, LABEL).
func (p *prometheus) values(query string) (values []string, err error) {
	inner, ok := strings.CutPrefix(query, "label_values(")
	at := strings.LastIndex(inner, ", ")
	if !ok || at < 0 || !strings.HasSuffix(inner, ")") {
		return nil, fmt.Errorf("%q is not label_values(SELECTOR, LABEL)", query)
	}
	selector, label := inner[:at], strings.TrimSuffix(inner[at+2:], ")")
	if err := p.get("/api/v1/label/"+label+"/values", url.Values{"match[]": {selector}}, &values); err != nil {
		return nil, err
	}
	if len(values) == 0 {
		return nil, errNoData
	}
	return values, nil
}
