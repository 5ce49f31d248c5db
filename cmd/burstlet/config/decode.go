package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// decode lays a YAML file over c. Fields that the file leaves out keep their
// value. It reports every unknown and repeated key. The entries of nodes are
// returned as they stand in the file, for expand.
func decode(file []byte, c *Configuration) ([]json.RawMessage, error) {
	c.APIVersion, c.Kind = "", ""
	data, err := yaml.YAMLToJSONStrict(file)
	if err != nil {
		text := strings.TrimPrefix(err.Error(), "yaml: ")
		return nil, errors.New(strings.TrimPrefix(text, "unmarshal errors:\n  "))
	}
	if string(data) == "null" {
		return nil, errors.New("it is empty")
	}
	strict, err := kjson.UnmarshalStrict(data, c)
	if err != nil {
		return nil, explain(locate(err, data))
	}
	for i, err := range strict {
		if path, ok := strings.CutPrefix(err.Error(), "unknown field "); ok {
			strict[i] = unknownKey(strings.Trim(path, `"`))
		}
	}
	if err := errors.Join(strict...); err != nil {
		return nil, err
	}
	var list struct {
		Nodes []json.RawMessage `json:"nodes"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	return list.Nodes, nil
}

// unknownKey is the error of a key that there is not. For one that OpenSSH has it says what
// there is instead.
func unknownKey(path string) error {
	dot := strings.LastIndexByte(path, '.')
	if strings.HasSuffix(path[:max(dot, 0)], "backend.cri.ssh") && strings.EqualFold(path[dot+1:], "proxyCommand") {
		return fmt.Errorf("%s: unknown key: no program is run to reach a host: name jump hosts in jumpHosts", path)
	}
	return fmt.Errorf("%s: unknown key", path)
}

// locate adds the index to the path of a value in nodes, which a decoder leaves
// out of lists.
func locate(err error, file []byte) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) || !strings.HasPrefix(wrong.Field, "nodes.") {
		return err
	}
	var list struct {
		Nodes []json.RawMessage `json:"nodes"`
	}
	if json.Unmarshal(file, &list) != nil {
		return err
	}
	for i, raw := range list.Nodes {
		if errors.As(json.Unmarshal(raw, &NodeEntry{}), &wrong) {
			wrong.Field = fmt.Sprintf("nodes[%d].%s", i, wrong.Field)
			return wrong
		}
	}
	return err
}

// explain says in the file's terms that a value has the wrong type.
func explain(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	path := wrong.Field
	if path == "" {
		return fmt.Errorf("it must be a mapping of keys, not %s", valueName(wrong.Value))
	}
	return fmt.Errorf("%s: must be %s, not %s", path, kindName(wrong.Type), valueName(wrong.Value))
}

func kindName(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[Duration]():
		return "a duration such as 10s"
	case reflect.TypeFor[Quantity]():
		return "a quantity such as 4, 500m or 16Gi"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "a mapping of keys"
	case reflect.Int:
		return "a whole number"
	default:
		return "a number"
	}
}

// valueName is what stands in the file: a kind ("string") or the value itself.
func valueName(value string) string {
	switch value {
	case "object":
		return "a mapping of keys"
	case "array":
		return "a list"
	case "bool":
		return "true or false"
	case "string", "number":
		return "a " + value
	default:
		return strings.TrimPrefix(value, "number ")
	}
}
