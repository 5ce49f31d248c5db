package config

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// evaluator judges values as a JSON schema says. It knows the words that our
// schema uses and panics on another, so that none goes unheard.
type evaluator struct {
	definitions schema
	patterns    map[string]*regexp.Regexp
}

func newEvaluator(root schema) *evaluator {
	return &evaluator{definitions: root["definitions"].(schema), patterns: map[string]*regexp.Regexp{}}
}

// takes is true for a value, as encoding/json decodes one, that the schema takes.
func (e *evaluator) takes(s schema, value any) bool {
	for word := range s {
		if !e.word(word, s, value) {
			return false
		}
	}
	return true
}

func (e *evaluator) word(word string, s schema, value any) bool {
	switch word {
	case "$schema", "title", "description", "default", "definitions", "then", "else":
		return true
	case "$ref":
		name := strings.TrimPrefix(s["$ref"].(string), "#/definitions/")
		return e.takes(e.definitions[name].(schema), value)
	case "type":
		return isType(s["type"], value)
	case "const":
		return reflect.DeepEqual(asJSON(s["const"]), value)
	case "enum":
		return slices.ContainsFunc(s["enum"].([]any), func(one any) bool { return reflect.DeepEqual(asJSON(one), value) })
	case "allOf":
		return !slices.ContainsFunc(s["allOf"].([]any), func(one any) bool { return !e.takes(one.(schema), value) })
	case "anyOf":
		return slices.ContainsFunc(s["anyOf"].([]any), func(one any) bool { return e.takes(one.(schema), value) })
	case "if":
		if branch, ok := s[map[bool]string{true: "then", false: "else"}[e.takes(s["if"].(schema), value)]].(schema); ok {
			return e.takes(branch, value)
		}
		return true
	}
	switch v := value.(type) {
	case string:
		return e.text(word, s, v)
	case float64:
		return amount(word, s, v)
	case []any:
		return e.list(word, s, v)
	case map[string]any:
		return e.mapping(word, s, v)
	default:
		return true
	}
}

func (e *evaluator) text(word string, s schema, value string) bool {
	switch word {
	case "pattern":
		form := s[word].(string)
		if e.patterns[form] == nil {
			e.patterns[form] = regexp.MustCompile(form)
		}
		return e.patterns[form].MatchString(value)
	case "minLength":
		return utf8.RuneCountInString(value) >= s[word].(int)
	case "maxLength":
		return utf8.RuneCountInString(value) <= s[word].(int)
	case "format":
		_, err := time.Parse(time.RFC3339, value)
		return err == nil
	default:
		return other(word)
	}
}

func amount(word string, s schema, value float64) bool {
	switch word {
	case "minimum":
		return value >= asJSON(s[word]).(float64)
	case "maximum":
		return value <= asJSON(s[word]).(float64)
	case "exclusiveMinimum":
		return value > asJSON(s[word]).(float64)
	default:
		return other(word)
	}
}

func (e *evaluator) list(word string, s schema, value []any) bool {
	switch word {
	case "minItems":
		return len(value) >= s[word].(int)
	case "maxItems":
		return len(value) <= s[word].(int)
	case "uniqueItems":
		return !slices.ContainsFunc(value, func(one any) bool {
			return len(
				slices.DeleteFunc(slices.Clone(value), func(other any) bool { return !reflect.DeepEqual(one, other) }),
			) > 1
		})
	case "items":
		return !slices.ContainsFunc(value, func(one any) bool { return !e.takes(s[word].(schema), one) })
	default:
		return other(word)
	}
}

func (e *evaluator) mapping(word string, s schema, value map[string]any) bool {
	properties, _ := s["properties"].(schema)
	for key, one := range value {
		var ok bool
		switch property, known := properties[key]; {
		case word == "properties":
			ok = !known || e.takes(property.(schema), one)
		case word == "propertyNames":
			ok = e.takes(s[word].(schema), key)
		case word == "additionalProperties" && !known:
			more, some := s[word].(schema)
			ok = some && e.takes(more, one)
		default:
			ok = word == "additionalProperties" || word == "required" || other(word)
		}
		if !ok {
			return false
		}
	}
	required, _ := s["required"].([]any)
	return word != "required" || !slices.ContainsFunc(required, func(key any) bool {
		_, given := value[key.(string)]
		return !given
	})
}

// other passes words that are for values of another type.
func other(word string) bool {
	switch word {
	case "pattern", "minLength", "maxLength", "format", "minimum", "maximum", "exclusiveMinimum", "minItems", "maxItems",
		"uniqueItems", "items", "properties", "propertyNames", "additionalProperties", "required":
		return true
	default:
		panic("the evaluator does not know " + word)
	}
}

func isType(types, value any) bool {
	if list, ok := types.([]any); ok {
		return slices.ContainsFunc(list, func(one any) bool { return isType(one, value) })
	}
	switch v := value.(type) {
	case nil:
		return types == "null"
	case bool:
		return types == "boolean"
	case string:
		return types == "string"
	case float64:
		return types == "number" || types == "integer" && v == math.Trunc(v)
	case []any:
		return types == "array"
	case map[string]any:
		return types == "object"
	default:
		panic(fmt.Sprintf("a value of type %T", v))
	}
}

func asJSON(v any) any {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		panic(err)
	}
	return out
}
