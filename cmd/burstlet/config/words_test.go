package config

import (
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scalars are structs that a file has as one value.
func scalars() []reflect.Type {
	return []reflect.Type{reflect.TypeFor[Duration](), reflect.TypeFor[Quantity](), reflect.TypeFor[metav1.Time]()}
}

// typeText tells people what a field takes.
func typeText(t reflect.Type, limit schema) string {
	if values, ok := limit["enum"].([]any); ok {
		return choice(values)
	}
	if value, ok := limit["const"]; ok {
		return fmt.Sprintf("`%v`", value)
	}
	text := typeName(t)
	if items, ok := limit["items"].(schema); ok && items["enum"] != nil {
		return "list of " + choice(items["enum"].([]any))
	}
	if options, ok := limit["anyOf"].([]any); ok {
		limit = options[1].(schema)
	}
	return text + bounds(limit)
}

func choice(values []any) string {
	var names []string
	for _, v := range values {
		if v != "" {
			names = append(names, fmt.Sprintf("`%v`", v))
		}
	}
	return strings.Join(names, ", ")
}

func bounds(limit schema) string {
	low, some := limit["minimum"]
	high, both := limit["maximum"]
	above, open := limit["exclusiveMinimum"]
	switch {
	case some && both:
		return fmt.Sprintf(", %v to %v", low, high)
	case some:
		return fmt.Sprintf(", at least %v", low)
	case open:
		return fmt.Sprintf(", above %v", above)
	default:
		return ""
	}
}

func typeName(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[Duration]():
		return "duration"
	case reflect.TypeFor[Quantity]():
		return "quantity"
	case reflect.TypeFor[metav1.Time]():
		return "time"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.Slice:
		if mapping(t) != nil {
			return "list of mappings"
		}
		return "list of " + typeName(t.Elem()) + "s"
	case reflect.Map:
		return "mapping of " + strings.TrimSuffix(typeName(t.Elem()), "s") + "s"
	case reflect.Struct:
		return "mapping"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "whole number"
	case reflect.Float32, reflect.Float64:
		return "number"
	default:
		return t.Kind().String()
	}
}
