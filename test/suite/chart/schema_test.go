package chart

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

// object is a JSON object.
type object = map[string]any

// TestSchema: the schema of the values holds the schema of the configuration file,
// which is made of the Go types: what Configuration and its parts may be, config and
// nodes may be. Not parallel, so that -update writes it before anything is rendered.
func TestSchema(t *testing.T) {
	var schema, configuration object
	readYAML(t, "values.schema.yaml", &schema)
	readYAML(t, filepath.Join(chartDir, "configuration.schema.json"), &configuration)
	definitions := schema["definitions"].(object)
	for name, definition := range configuration["definitions"].(object) {
		if definitions[name] != nil {
			t.Fatalf("two definitions of %s", name)
		}
		definitions[name] = definition
	}
	plain(definitions)
	// The templates say these in words, and look at what a node has of config.
	delete(definitions["Backend"].(object), "allOf")
	delete(definitions["CRI"].(object)["properties"].(object)["endpoint"].(object), "pattern")
	definitions["ChartConfiguration"] = chartConfiguration(t, definitions)
	definitions["ChartNode"] = chartNode(t, definitions)
	delete(definitions, "Configuration")
	delete(definitions, "NodeEntry")
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(schema); err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join(chartDir, "values.schema.json"), text.Bytes())
}

// chartConfiguration is the file without what the chart writes itself.
func chartConfiguration(t *testing.T, definitions object) object {
	c := maps.Clone(definitions["Configuration"].(object))
	properties := maps.Clone(c["properties"].(object))
	for _, name := range []string{"apiVersion", "kind", "nodes"} {
		if properties[name] == nil {
			t.Fatalf("the configuration's schema has no %s", name)
		}
		delete(properties, name)
	}
	c["properties"] = properties
	for _, rule := range []string{"required", "if", "then", "else"} { // of nodes and the type
		delete(c, rule)
	}
	return c
}

// chartNode is an entry of nodes, or nothing, and what the chart adds to it.
func chartNode(t *testing.T, definitions object) object {
	c := maps.Clone(definitions["NodeEntry"].(object))
	if c["required"] != nil {
		t.Fatal("an entry requires something: the chart gives the name")
	}
	properties := maps.Clone(c["properties"].(object))
	properties["sshKeys"] = object{"$ref": "#/definitions/ChartSSHKeys"}
	c["properties"] = properties
	c["type"] = []string{"object", "null"}
	return c
}

// plain takes the wrapping off references, which makes a message of every layer; the
// definition that is referred to is described too.
func plain(definitions object) {
	for _, d := range definitions {
		properties, _ := d.(object)["properties"].(object)
		for name, p := range properties {
			all, _ := p.(object)["allOf"].([]any)
			if len(all) == 1 && len(p.(object)) <= 2 && all[0].(object)["$ref"] != nil {
				properties[name] = all[0]
			}
		}
	}
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
