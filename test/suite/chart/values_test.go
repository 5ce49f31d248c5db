package chart

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// commented is a line of values.yaml that is YAML but for its #: prose has exactly one
// blank there.
var commented = regexp.MustCompile(`(?m)^( *)#(  +\S.*|[^ #\n].*)$`)

// key is the name at the beginning of a line.
var key = regexp.MustCompile(`^( *)#?( *)([A-Za-z-]+):`)

// TestConfigurationIsShown: what values.yaml shows of config, commented out or not, is
// every field of burstlet's configuration and nothing else, by the names and with the
// types that burstlet reads.
func TestConfigurationIsShown(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(data), "\nconfig:\n")
	section, _, ended := strings.Cut(section, "\n# -- Identity")
	if !found || !ended {
		t.Fatal("values.yaml has no config, or it does not end where it did")
	}
	text := "config:\n" + commented.ReplaceAllString(section, "$1$2")
	var shown struct {
		Config object `json:"config"`
	}
	if err := yaml.Unmarshal([]byte(text), &shown); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	again, err := yaml.Marshal(shown.Config)
	if err != nil {
		t.Fatal(err)
	}
	var cfg config.Configuration
	if err := yaml.UnmarshalStrict(again, &cfg); err != nil {
		t.Errorf("burstlet does not read it: %v", err)
	}
	want := map[string]bool{}
	leaves(reflect.TypeFor[config.Configuration](), "", want)
	for path := range want {
		if !has(shown.Config, strings.Split(path, ".")) {
			t.Errorf("config.%s is not shown", path)
		}
	}
}

// leaves collects the paths of all fields but those that the chart gives.
func leaves(of reflect.Type, at string, into map[string]bool) {
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch at + name {
		case "", "nodes", "node.name", "node.identity":
			continue
		}
		kind := f.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		if kind.Kind() == reflect.Struct && kind.PkgPath() == of.PkgPath() &&
			!reflect.PointerTo(kind).Implements(reflect.TypeFor[interface{ UnmarshalJSON([]byte) error }]()) {
			leaves(kind, at+name+".", into)
			continue
		}
		into[at+name] = true
	}
}

func has(in object, path []string) bool {
	value, ok := in[path[0]]
	if !ok || len(path) == 1 {
		return ok
	}
	below, _ := value.(object)
	return has(below, path[1:])
}

// TestValuesAreCommented: every value of the schema stands in values.yaml, with a
// comment of its own, of its list or of the section that it begins.
func TestValuesAreCommented(t *testing.T) {
	t.Parallel()
	var schema object
	readYAML(t, "values.schema.yaml", &schema)
	var values object
	readYAML(t, filepath.Join(chartDir, "values.yaml"), &values)
	shown(t, "", schema, values)
	data, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	explained := false // the lines above, without an empty one between
	for line := range strings.Lines(string(data)) {
		switch m := key.FindStringSubmatch(line); {
		case strings.TrimSpace(line) == "":
			explained = false
		case strings.Contains(line, "#"):
			explained = true
		case m != nil && m[1] == "" && !explained && !plainly[m[3]]:
			t.Errorf("%s has no comment", m[3])
		}
	}
}

// plainly are sections that say all in their parts, or by their names.
var plainly = map[string]bool{
	"serviceAccount": true, "rbac": true, "image": true, "resources": true,
	"podDisruptionBudget": true, "networkPolicy": true,
}

// shown compares the properties of a schema with the values that are there.
func shown(t *testing.T, at string, schema, values object) {
	t.Helper()
	properties, _ := schema["properties"].(object)
	for name, p := range properties {
		if at+name == "global" {
			continue
		}
		value, ok := values[name]
		if !ok {
			t.Errorf("%s%s is not in values.yaml", at, name)
		}
		if below, ok := value.(object); ok {
			shown(t, at+name+".", p.(object), below)
		}
	}
}
