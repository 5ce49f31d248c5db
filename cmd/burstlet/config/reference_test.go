package config

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the schema and the reference anew")

const (
	schemaFile    = "../../../charts/burstlet/configuration.schema.json"
	referenceFile = "../../../docs/configuration.md"
	again         = "go test ./cmd/burstlet/config -run TestReference -update"
)

// TestReference compares the schema and the page with the types, their comments,
// their defaults and the settings.
func TestReference(t *testing.T) {
	made, g := newSchema()
	for path := range g.limits {
		if !g.used[path] {
			t.Errorf("limits: %s is no field", path)
		}
	}
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if err := out.Encode(made); err != nil {
		t.Fatal(err)
	}
	current(t, schemaFile, text.String())
	current(t, referenceFile, page(g))
}

func current(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), want); diff != "" {
		t.Errorf("%s is stale; %s (-file +types):\n%s", file, again, diff)
	}
}

// Every field says what it is, and a default that a comment names is the real one.
func TestCommentsTellTheDefaults(t *testing.T) {
	_, g := newSchema()
	for path, value := range g.defaults {
		doc := propertyAt(g, path)["description"].(string)
		if value == false || strings.Contains(doc, ": as in hostNetwork") || strings.Contains(doc, "see hostNetwork") {
			continue
		}
		if text := short(value); !strings.Contains(doc, "default "+text) && !strings.Contains(doc, "Default "+text) &&
			!strings.Contains(doc, `default "`+text) && !strings.Contains(doc, text+", the default") &&
			!strings.Contains(doc, text+" the default") {
			t.Errorf("%s: the default is %s, the comment says %q", path, text, doc)
		}
	}
	for kind, definition := range g.definitions {
		for key, property := range definition.(schema)["properties"].(schema) {
			if property.(schema)["description"] == nil && kind != "ECSPrices" {
				t.Errorf("%s.%s has no comment", kind, key)
			}
		}
	}
}

func propertyAt(g *generator, path string) schema {
	kind, key, _ := strings.Cut(path, ".")
	return g.definitions[kind].(schema)["properties"].(schema)[key].(schema)
}

// short is a default as people write it.
func short(value any) string {
	text := fmt.Sprint(value)
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}

const intro = `# Configuration

Every field of the configuration file, with its flag and environment variable. A test generates this page and
[configuration.schema.json](../charts/burstlet/configuration.schema.json) from the types in
` + "`cmd/burstlet/config`" + ` (` + "`" + again + "`" + `) and fails when they
are stale.

The file is YAML with ` + "`apiVersion: " + APIVersion + "` and `kind: " + Kind + "`" + `. Name it with
` + "`--config FILE` or `" + FileEnv + "`" +
	`. An unknown key is an error that names the key. Flags override environment
variables, and variables override the file. An empty variable counts as unset; lists in variables and flags are
separated by commas. Durations look like ` + "`10s`, `1m30s`, `24h`, quantities like `4`, `500m`, `16Gi`" + `.
` + "`burstlet doctor --config FILE`" + ` checks a file and everything that it names.

[Examples](#examples) · [The file](#the-file) · [Flags](#flags)

`

// examples follow the introduction. TestDocumentedFiles loads them.
//
//go:embed testdata/examples.md
var examples string

// page is docs/configuration.md.
func page(g *generator) string {
	var out strings.Builder
	out.WriteString(intro)
	out.WriteString(examples)
	chapter(&out, g, "", reflect.TypeFor[Configuration]())
	heading(&out, g, "nodes[].", reflect.TypeFor[NodeEntry]())
	table(&out, g, "nodes[].", reflect.TypeFor[NodeEntry]())
	flagTable(&out)
	return strings.TrimRight(out.String(), "\n") + "\n"
}

func flagTable(out *strings.Builder) {
	out.WriteString("## Flags\n\n`--config`, `" + FileEnv + "`: the file.\n\n| flag | variable | field |\n|---|---|---|\n")
	for _, s := range Settings() {
		fmt.Fprintf(out, "| `--%s` | `%s` | `%s` |\n", s.Flag, s.Env(), s.Path)
	}
}

// chapter writes the table of a mapping and those of the mappings in it.
func chapter(out *strings.Builder, g *generator, path string, t reflect.Type) {
	heading(out, g, path, t)
	table(out, g, path, t)
	for _, f := range fields(t) {
		if inner := mapping(f.kind); inner != nil && f.key != "nodes" {
			next := path + f.key
			if f.kind.Kind() == reflect.Slice {
				next += "[]"
			}
			chapter(out, g, next+".", inner)
		}
	}
}

func heading(out *strings.Builder, g *generator, path string, t reflect.Type) {
	title := strings.TrimSuffix(path, ".")
	if title == "" {
		title = "The file"
	}
	fmt.Fprintf(out, "## %s\n\n", title)
	about, _ := g.definitions[t.Name()].(schema)["description"].(string)
	if about, ok := strings.CutPrefix(about, t.Name()); ok {
		fmt.Fprintf(out, "%s%s\n\n", strings.Replace("`"+title+"`", "`The file`", "It", 1), about)
	}
}

// mapping is the struct that a field holds, itself or in a list; nil for none.
func mapping(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || slices.Contains(scalars(), t) {
		return nil
	}
	return t
}

func table(out *strings.Builder, g *generator, path string, t reflect.Type) {
	settings := map[string]Setting{}
	for _, s := range Settings() {
		settings[s.Path] = s
	}
	out.WriteString("| field | type | default | meaning |\n|---|---|---|---|\n")
	for _, f := range fields(t) {
		var fallback string
		if value, ok := g.defaults[t.Name()+"."+f.key]; ok {
			fallback = "`" + short(value) + "`"
		}
		meaning := f.doc
		if s, ok := settings[path+f.key]; ok {
			meaning += fmt.Sprintf(" Flag `--%s`, variable `%s`.", s.Flag, s.Env())
		}
		fmt.Fprintf(out, "| `%s%s` | %s | %s | %s |\n", path, f.key, typeText(f.kind, g.limits[g.common(t, f.key)]), fallback,
			strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(meaning))
	}
	out.WriteString("\n")
}
