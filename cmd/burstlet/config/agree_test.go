package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// validFile is a file with a mapping for the fields that it is to judge: those
// whose paths begin as one of fields.
type validFile struct {
	text   string
	fields []string
}

func validFiles() map[string]validFile {
	return map[string]validFile{
		"host": {text: `
node: {name: a, labels: {a: b}, annotations: {a: b}, taints: [{key: k, effect: NoSchedule}], capacity: {cpu: 4}}
client: {}
backend: {type: cri, cri: {endpoint: ssh://u@h, ssh: {keyFiles: [/k], knownHostsFile: /h, jumpHosts: [u@h]}}}
kubeletAPI: {serverTLSBootstrap: true}
clusterDNS: [10.0.0.1]
pods: {}
images: {}
eviction: {}
healthzPort: 10248
compatibility: {}
logging: {}
leaderElection: {enabled: true, namespace: ns}
shutdown: {}
`, fields: []string{""}},
		"tasks": {text: `
node: {name: a, capacity: {cpu: 1, memory: 1Gi}}
backend: {type: ecs, ecs: {region: r, cluster: c, subnets: [subnet-1], capacityTypes: [spot], taskImage: i,
  logGroup: g, executionRoleARN: 'arn:aws:iam::123456789012:role/a', ebs: {roleARN: 'arn:aws:iam::123456789012:role/r', encrypted: true}, prices: {vcpu: 1, gb: 1, armVCPU: 1, armGB: 1}}}
kubeletAPI: {selfSigned: true}
clusterDNS: [10.0.0.1]
`, fields: []string{"backend", "node.capacity", "kubeletAPI"}},
		"simulated": {text: "\nnode: {name: a}\nbackend: {type: sim, sim: {}}\n", fields: []string{"backend"}},
		"simulated elsewhere": {
			text: "\nnode: {name: a}\nbackend: {type: sim, sim: {socket: unix:///s}}\n", fields: []string{"backend"},
		},
		"drained": {text: `
node: {name: a}
backend: {type: sim}
shutdown: {mode: drain, gracePeriod: 1m, gracePeriodCriticalPods: 10s}
`, fields: []string{"shutdown"}},
		"several": {text: `
node: {}
backend: {type: sim}
nodes:
- node: {name: a, taints: [{key: k, effect: NoSchedule}]}
  backend: {type: cri, cri: {}}
  kubeletAPI: {}
  pods: {}
  images: {}
  eviction: {}
`, fields: []string{"nodes", "node.name", "node.identity"}},
	}
}

// beyond are fields of which Load says more than the schema: what depends on other
// fields or on arithmetic, which a schema cannot say.
func beyond() map[string]string {
	return map[string]string{
		"certDirectory":                    "absolute where certificates are requested",
		"clusterDomain":                    "a letter less without a dot at the end",
		"node.capacity.pods":               "whole, also as a text",
		"backend.cri.ssh.jumpKeyFiles":     "by entries of jumpHosts",
		"backend.ecs.refresh":              "0 or at least 5s",
		"backend.ecs.registryMirrors":      "URLs without path and user",
		"backend.ecs.unusedAfter":          "0 or at least 1h",
		"backend.ecs.prices":               "all of the four without which nothing is priced",
		"leaderElection.leaseDuration":     "whole seconds, above renewDeadline",
		"leaderElection.renewDeadline":     "below leaseDuration, above retryPeriod",
		"images.imageMaximumGCAge":         "above the minimum",
		"shutdown.gracePeriod":             "1s to drain",
		"shutdown.gracePeriodCriticalPods": "a part of gracePeriod",

		"backend.cri.shutdownGracePeriod":             "0 or at least 1s",
		"backend.cri.shutdownGracePeriodCriticalPods": "a part of shutdownGracePeriod",
	}
}

// TestSchemaAgreesWithLoad gives every field many values, right and wrong, and
// wants the schema and Load to say the same of each.
func TestSchemaAgreesWithLoad(t *testing.T) {
	root, _ := newSchema()
	e := newEvaluator(root)
	tried, more := 0, map[string]bool{}
	for name, valid := range validFiles() {
		var base map[string]any
		if err := yaml.Unmarshal([]byte("apiVersion: "+APIVersion+"\nkind: "+Kind+valid.text), &base); err != nil {
			t.Fatal(err)
		}
		j := judge{t: t, evaluator: e, root: root, more: more}
		if err := j.load(base); err != nil || !e.takes(root, base) {
			t.Fatalf("%s: Load says %v, the schema says %v", name, err, e.takes(root, base))
		}
		for _, path := range j.paths(root, base, nil) {
			if !slices.ContainsFunc(
				valid.fields, func(prefix string) bool { return strings.HasPrefix(spell(path.steps), prefix) },
			) {
				continue
			}
			for _, value := range candidates(path.schema) {
				j.compare(name, base, path.steps, value)
				tried++
			}
		}
	}
	for path := range beyond() {
		if !more[path] {
			t.Errorf("beyond: of %s both say the same", path)
		}
	}
	t.Logf("%d files", tried)
}

type judge struct {
	*evaluator
	t    *testing.T
	root schema
	more map[string]bool // the fields of beyond that were met
}

// load does what Load does with a file.
func (j judge) load(file map[string]any) error {
	data, err := json.Marshal(file)
	if err != nil {
		j.t.Fatal(err)
	}
	_, err = Sources{}.load("FILE", data)
	return err
}

// compare sets one value and asks both. What Load says of other fields is theirs.
func (j judge) compare(name string, base map[string]any, path []any, value any) {
	file := asJSON(base).(map[string]any)
	set(file, path, value)
	where := spell(path)
	err := j.load(file)
	about := err != nil && strings.Contains(err.Error(), where)
	takes := j.takes(j.root, file)
	switch {
	case takes && about && beyond()[strings.TrimPrefix(where, "nodes[0].")] != "":
		j.more[strings.TrimPrefix(where, "nodes[0].")] = true
	case takes && about && !crossed(err, where):
		j.t.Errorf("%s: %s: %#v: the schema takes it, Load says %v", name, where, value, err)
	case !takes && err == nil:
		j.t.Errorf("%s: %s: %#v: Load takes it, the schema does not", name, where, value)
	}
}

// crossed is true for errors about what fields ask of each other.
func crossed(err error, where string) bool {
	for line := range strings.Lines(err.Error()) {
		if !strings.Contains(line, where) {
			continue
		}
		if !strings.Contains(line, "Required value") && !strings.Contains(line, "Forbidden") &&
			!strings.Contains(line, "excludes") &&
			!strings.Contains(line, "has it too") && !strings.Contains(line, "must be less than") {
			return false
		}
	}
	return true
}

// place is a field of a file and what the schema says of it.
type place struct {
	steps  []any
	schema schema
}

// paths are the places of all fields that the file has a mapping for.
func (j judge) paths(s schema, value any, at []any) []place {
	s = j.resolve(s)
	if list, ok := value.([]any); ok && len(list) > 0 {
		return j.paths(s["items"].(schema), list[0], append(slices.Clone(at), 0))
	}
	mapping, ok := value.(map[string]any)
	if !ok {
		return nil
	}
	var found []place
	properties, _ := s["properties"].(schema)
	for key, property := range properties {
		steps := append(slices.Clone(at), key)
		found = append(found, place{steps, j.resolve(property.(schema))})
		found = append(found, j.paths(property.(schema), mapping[key], steps)...)
	}
	return found
}

func (j judge) resolve(s schema) schema {
	for {
		switch {
		case s["$ref"] != nil:
			s = j.definitions[strings.TrimPrefix(s["$ref"].(string), "#/definitions/")].(schema)
		case s["properties"] == nil && s["allOf"] != nil && s["pattern"] == nil:
			s = s["allOf"].([]any)[0].(schema)
		default:
			return s
		}
	}
}

func set(file map[string]any, path []any, value any) {
	var at any = file
	for _, step := range path[:len(path)-1] {
		switch step := step.(type) {
		case string:
			at = at.(map[string]any)[step]
		case int:
			at = at.([]any)[step]
		}
	}
	at.(map[string]any)[path[len(path)-1].(string)] = value
}

func spell(path []any) string {
	var out string
	for _, step := range path {
		if index, ok := step.(int); ok {
			out += fmt.Sprintf("[%d]", index)
			continue
		}
		out += "." + step.(string)
	}
	return strings.TrimPrefix(out, ".")
}

// candidates are values for a field: of every type a few, of its own all, at the
// limits of what some field takes, and what it itself lists.
func candidates(field schema) []any {
	all := []any{nil, true, 1.0, 1.5, "", "x", []any{}, []any{"x"}, []any{1.0}, map[string]any{}, map[string]any{"x": "y"}}
	list, _ := field["enum"].([]any)
	all = append(all, list...)
	if isType(field["type"], "") {
		all = append(all, textsFor(field)...)
	}
	if isType(field["type"], 1.0) {
		all = append(
			all, -2.0, -1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 20.0, 21.0, 100.0, 101.0, 200.0, 201.0, 1000.0, 1001.0, 10250.0, 65535.0,
			65536.0,
		)
	}
	if isType(field["type"], []any{}) {
		items := field["items"].(schema)
		all = append(
			all, []any{nil}, []any{map[string]any{}}, []any{map[string]any{"key": "k", "effect": "NoSchedule"}},
			[]any{map[string]any{"key": "k", "effect": "x"}},
		)
		list, _ := items["enum"].([]any)
		for _, text := range append(list, textsFor(items)...) {
			all = append(all, []any{text})
			if field["maxItems"] != nil || field["uniqueItems"] != nil {
				all = append(all, []any{text, text}, slices.Repeat([]any{text}, 17))
			}
		}
	}
	if field["additionalProperties"] != false && isType(field["type"], map[string]any{}) {
		all = append(all, map[string]any{"x": 1.0}, map[string]any{"x": nil})
		for _, text := range textsFor(field) {
			all = append(all, map[string]any{text.(string): "y"}, map[string]any{"x": text})
		}
	}
	return all
}

// textsFor are all texts where the schema limits them, else a few of which any
// limit of Load's would refuse one.
func textsFor(field schema) []any {
	for _, word := range []string{"pattern", "minLength", "maxLength", "propertyNames", "enum"} {
		if field[word] != nil {
			return texts()
		}
	}
	return []any{"-", "x y", "é", "/x", "x/", "1", "-1s", "10.0.0.1", "https://x", strings.Repeat("x", 513)}
}

func texts() []any {
	return []any{
		"-", "x.y", "X", "x_y", "x.", ".x", "x/y", "x.y/z", "x/y/z", "/", "x/", "/x", "/x/", "//x", "/x/../y", "/x/.y",
		"/..x", "x y", "é", "true",
		strings.Repeat("x", 63), strings.Repeat("x", 64), strings.Repeat("x", 253), strings.Repeat("x", 254),
		strings.Repeat("x", 255),
		strings.Repeat("x", 512), strings.Repeat("x", 513), "x.y/" + strings.Repeat("z", 63),
		"10.0.0.1", "10.0.0.256", "10.0.0", "010.0.0.1", "fe80::1", "::", "::ffff:10.0.0.1", "fe80::1%eth0", "fe80",
		"10.0.0.1:6443", "10.0.0.1:0", "[fd00::1]:6443", "h:1",
		"0", "1", "-1", "+1", "1.5", ".5", "1h", "1.5h", "1m30s", "0s", "-1s", "+1s", "1s1", "1d", "500ms", "16Gi", "16 GB",
		"500m", "1e3", "-1Gi", "0Gi", "1Kib",
		"unix:///s", "unix://s", "ssh://u@h", "ssh://u@h:22", "ssh://u@[fd00::1]:22", "ssh://h", "ssh://u@", "ssh://u:p@h",
		"ssh://u@h/p",
		"u@h", "u@h:22", "u:p@h", "@h", "https://x", "https://x/1", "LATEST", "1.4.0", "1.3.9", "subnet-1", "sg-1",
		"arn:aws:iam::123456789012:role/r", "arn:aws:iam::1:role/r", "alias/k", "2026-01-02T03:04:05Z",
	}
}
