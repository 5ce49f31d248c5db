package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	dashboardsDir = "../../../deploy/grafana"
	prometheusDir = "../../../deploy/prometheus"
)

// dashboard is what is looked at of a dashboard's model.
type dashboard struct {
	UID           string   `json:"uid"`
	Title         string   `json:"title"`
	Tags          []string `json:"tags"`
	SchemaVersion int      `json:"schemaVersion"`
	Panels        []panel  `json:"panels"`
	Templating    struct {
		List []variable `json:"list"`
	} `json:"templating"`
	file string
}

type panel struct {
	ID         int        `json:"id"`
	Type       string     `json:"type"`
	Title      string     `json:"title"`
	Datasource datasource `json:"datasource"`
	GridPos    struct {
		X, Y, W, H int
	} `json:"gridPos"`
	Targets     []target `json:"targets"`
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
}

type datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type target struct {
	RefID        string     `json:"refId"`
	Expr         string     `json:"expr"`
	LegendFormat string     `json:"legendFormat"`
	Datasource   datasource `json:"datasource"`
}

type variable struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Query any    `json:"query"`
}

// dashboards are those that are shipped.
func dashboards(t *testing.T) []dashboard {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dashboardsDir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("dashboards %v, %v", files, err)
	}
	var all []dashboard
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d := dashboard{file: filepath.Base(file)}
		if err := json.Unmarshal(data, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, d)
	}
	return all
}

// ruleFile is deploy/prometheus/alerts.yaml.
type ruleFile struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	} `json:"groups"`
}

type rule struct {
	Record      string            `json:"record"`
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func ruleFilePath(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(prometheusDir, "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// rules are all that are shipped, in their order.
func rules(t *testing.T) (names []string, all []rule) {
	t.Helper()
	data, err := os.ReadFile(ruleFilePath(t))
	if err != nil {
		t.Fatal(err)
	}
	var f ruleFile
	if err := yaml.UnmarshalStrict(data, &f); err != nil {
		t.Fatal(err)
	}
	for _, g := range f.Groups {
		names = append(names, g.Name)
		all = append(all, g.Rules...)
	}
	return names, all
}

// units are those of Grafana that the dashboards use.
var units = []string{"none", "s", "ops", "reqps", "bytes", "Bps", "percentunit", "currencyUSD"}

func TestDashboardsAreWhatGrafanaExpects(t *testing.T) {
	uids := map[string]string{}
	for _, d := range dashboards(t) {
		if d.UID+".json" != d.file || d.Title == "" || !slices.Contains(d.Tags, "burstlet") {
			t.Errorf("%s: uid %q, title %q, tags %v", d.file, d.UID, d.Title, d.Tags)
		}
		if other := uids[d.UID]; other != "" {
			t.Errorf("%s and %s have the uid %s", other, d.file, d.UID)
		}
		uids[d.UID] = d.file
		if d.SchemaVersion != 39 {
			t.Errorf("%s: schema version %d: Grafana 10.3 and newer read 39", d.file, d.SchemaVersion)
		}
		d.checkVariables(t)
		d.checkPanels(t)
	}
}

func (d dashboard) checkVariables(t *testing.T) {
	t.Helper()
	var names []string
	for _, v := range d.Templating.List {
		names = append(names, v.Name+" "+v.Type)
	}
	if want := []string{"datasource datasource", "job query", "node query"}; !slices.Equal(names, want) {
		t.Errorf("%s: variables %q, want %q", d.file, names, want)
	}
}

func (d dashboard) checkPanels(t *testing.T) {
	t.Helper()
	ids, titles := map[int]string{}, map[string]bool{}
	row := ""
	for i, p := range d.Panels {
		if other, twice := ids[p.ID]; twice || p.ID <= 0 {
			t.Errorf("%s: %q and %q have the id %d", d.file, other, p.Title, p.ID)
		}
		ids[p.ID] = p.Title
		if p.GridPos.W <= 0 || p.GridPos.H <= 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s: %q stands at %+v", d.file, p.Title, p.GridPos)
		}
		for _, other := range d.Panels[:i] {
			if overlap(p, other) {
				t.Errorf("%s: %q lies over %q", d.file, p.Title, other.Title)
			}
		}
		if p.Type == "row" {
			row = p.Title
			continue
		}
		name := row + "/" + p.Title
		if p.Title == "" || titles[name] {
			t.Errorf("%s: title %q is empty or there twice", d.file, name)
		}
		titles[name] = true
		if !slices.Contains(units, p.FieldConfig.Defaults.Unit) {
			t.Errorf("%s: %q has the unit %q", d.file, p.Title, p.FieldConfig.Defaults.Unit)
		}
		p.checkTargets(t, d.file)
	}
}

var anyVariable = regexp.MustCompile(`\$\{?(\w+)`)

// variables are those that the test fills in as Grafana does.
var variables = []string{"job", "node", "__rate_interval", "__range"}

func (p panel) checkTargets(t *testing.T, file string) {
	t.Helper()
	if len(p.Targets) == 0 {
		t.Errorf("%s: %q asks nothing", file, p.Title)
	}
	refs := map[string]bool{}
	for _, q := range p.Targets {
		if refs[q.RefID] || q.RefID == "" {
			t.Errorf("%s: %q has the query %q twice", file, p.Title, q.RefID)
		}
		refs[q.RefID] = true
		for _, source := range []datasource{p.Datasource, q.Datasource} {
			if source != (datasource{"prometheus", "${datasource}"}) {
				t.Errorf("%s: %q has the data source %+v, not the variable", file, p.Title, source)
			}
		}
		for _, v := range anyVariable.FindAllStringSubmatch(q.Expr, -1) {
			if !slices.Contains(variables, v[1]) {
				t.Errorf("%s: %q uses the variable %s", file, p.Title, v[0])
			}
		}
	}
}

func overlap(a, b panel) bool {
	p, q := a.GridPos, b.GridPos
	return p.X < q.X+q.W && q.X < p.X+p.W && p.Y < q.Y+q.H && q.Y < p.Y+p.H
}

// comparison is how each alert ends: what stands before it must have data while
// nothing is wrong.
var comparison = regexp.MustCompile(`(?s)^(.+) (>|<|==) [0-9.]+$`)

var usedLabel = regexp.MustCompile(`\$labels\.(\w+)`)

func TestAlertsSayWhatTheyMeanAndWhatToDo(t *testing.T) {
	names, all := rules(t)
	if names[0] != "burstlet.rules" {
		t.Errorf("groups %v: what is recorded comes first", names)
	}
	seen := map[string]bool{}
	for _, r := range all {
		name := r.Record + r.Alert
		if seen[name] {
			t.Errorf("%s is there twice", name)
		}
		seen[name] = true
		if r.Record != "" {
			if !strings.HasPrefix(r.Record, "burstlet:") {
				t.Errorf("%s does not say whose it is", r.Record)
			}
			continue
		}
		if !regexp.MustCompile(`^Burstlet[A-Z]\w+$`).MatchString(r.Alert) {
			t.Errorf("alert %q", r.Alert)
		}
		if !comparison.MatchString(r.Expr) {
			t.Errorf("%s does not end with a comparison with a number: %s", name, r.Expr)
		}
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s has the severity %q", name, s)
		}
		for _, key := range []string{"summary", "description", "action"} {
			if text := r.Annotations[key]; len(text) < 20 || !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, "}}") {
				t.Errorf("%s: %s is %q", name, key, text)
			}
		}
	}
}

// TestRunbook: every alert points at its own section of the runbook.
func TestRunbook(t *testing.T) {
	runbook, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, all := rules(t)
	for _, r := range all {
		if r.Alert == "" {
			continue
		}
		url := r.Annotations["runbook_url"]
		if !strings.HasSuffix(url, "/docs/operations.md#"+strings.ToLower(r.Alert)) {
			t.Errorf("%s: runbook_url %q", r.Alert, url)
		}
		if !strings.Contains(string(runbook), "\n### "+r.Alert+"\n") {
			t.Errorf("docs/operations.md has no section %s", r.Alert)
		}
	}
}
