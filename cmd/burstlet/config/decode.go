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
// value. It reports every unknown and repeated key.
func decode(file []byte, c *Configuration) error {
	c.APIVersion, c.Kind = "", ""
	data, err := yaml.YAMLToJSONStrict(file)
	if err != nil {
		text := strings.TrimPrefix(err.Error(), "yaml: ")
		return errors.New(strings.TrimPrefix(text, "unmarshal errors:\n  "))
	}
	if string(data) == "null" {
		return errors.New("it is empty")
	}
	strict, err := kjson.UnmarshalStrict(data, c)
	if err != nil {
		return explain(err)
	}
	for i, err := range strict {
		if path, ok := strings.CutPrefix(err.Error(), "unknown field "); ok {
			strict[i] = fmt.Errorf("%s: unknown key", strings.Trim(path, `"`))
		}
	}
	return errors.Join(strict...)
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
