package monitoring

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/burstlet/burstlet/test/parts/remotehost/containerd"
)

// need skips the test where Prometheus is not installed, or fails it where nothing may
// be missing.
func need(t *testing.T) {
	t.Helper()
	if missing := containerd.MissingBinaries(map[string]string{
		"prometheus": "prometheus", "promtool": "prometheus",
	}); len(missing) > 0 {
		containerd.Need(t, "Prometheus", missing)
	}
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestPrometheusTakesTheRules(t *testing.T) {
	need(t)
	promtool(t, "check", "rules", ruleFilePath(t))
}

// unitTests is a file of promtool's.
type unitTests struct {
	RuleFiles          []string   `json:"rule_files"`
	EvaluationInterval string     `json:"evaluation_interval"`
	GroupEvalOrder     []string   `json:"group_eval_order"`
	Tests              []unitTest `json:"tests"`
}

type unitTest struct {
	Name        string       `json:"name"`
	Interval    string       `json:"interval"`
	InputSeries []series     `json:"input_series"`
	PromQL      []promqlTest `json:"promql_expr_test"`
}

type series struct {
	Series string `json:"series"`
	Values string `json:"values"`
}

type promqlTest struct {
	Expr       string   `json:"expr"`
	EvalTime   string   `json:"eval_time"`
	ExpSamples []sample `json:"exp_samples"`
}

type sample struct {
	Labels string  `json:"labels"`
	Value  float64 `json:"value"`
}

func TestEveryAlertFiresWhenItMustAndNotOtherwise(t *testing.T) {
	t.Parallel()
	need(t)
	groups, all := rules(t)
	byName := map[string]rule{}
	for _, r := range all {
		if r.Alert != "" {
			byName[r.Alert] = r
		}
	}
	tests := unitTests{RuleFiles: []string{ruleFilePath(t)}, EvaluationInterval: "1m", GroupEvalOrder: groups}
	for _, c := range slices.Concat(nodeCases, podCases, apiCases, criCases, ecsCases) {
		r, ok := byName[c.alert]
		if !ok {
			t.Errorf("there is no alert %s", c.alert)
			continue
		}
		delete(byName, c.alert)
		for _, used := range usedLabel.FindAllStringSubmatch(fmt.Sprint(r.Annotations), -1) {
			if _, ok := c.labels[used[1]]; !ok {
				t.Errorf("%s speaks of the label %s, which it does not have", c.alert, used[1])
			}
		}
		tests.Tests = append(
			tests.Tests, c.test("fires", c.fires, []sample{{Labels: c.firing(r), Value: 1}}), c.test("is quiet", c.quiet, nil),
		)
	}
	for name := range byName {
		t.Errorf("%s is not shown to fire", name)
	}
	data, err := yaml.Marshal(tests)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "alerts.test.yaml")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "test", "rules", file)
}

func (c alertCase) test(name string, input map[string]string, want []sample) unitTest {
	u := unitTest{Name: c.alert + " " + name, Interval: "1m", PromQL: []promqlTest{{
		Expr: fmt.Sprintf(`ALERTS{alertname=%q,alertstate="firing"}`, c.alert), EvalTime: c.at, ExpSamples: want,
	}}}
	for s, values := range input {
		u.InputSeries = append(u.InputSeries, series{s, values})
	}
	return u
}

// firing is the series that Prometheus keeps of the alert.
func (c alertCase) firing(r rule) string {
	labels := []string{
		fmt.Sprintf("alertname=%q", c.alert), `alertstate="firing"`, fmt.Sprintf("severity=%q", r.Labels["severity"]),
	}
	for name, value := range c.labels {
		labels = append(labels, fmt.Sprintf("%s=%q", name, value))
	}
	return "ALERTS{" + strings.Join(labels, ",") + "}"
}
