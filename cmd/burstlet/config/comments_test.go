package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strings"
	"sync"
)

// comments are what the source says of types and, as Type.Field, of their fields,
// in the file's names.
type comments struct{ types, fields map[string]string }

var docs = sync.OnceValue(readComments)

// readComments reads the sources of the types.
func readComments() comments {
	c := comments{types: map[string]string{}, fields: map[string]string{}}
	raw := map[string]string{}
	names := map[string]map[string]string{} // type: field: key
	for _, file := range []string{
		"types.go", "host_resources.go", "nodes.go", "images.go", "shutdown.go", "hostshutdown.go",
	} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			panic(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			declared, ok := n.(*ast.GenDecl)
			if !ok || declared.Tok != token.TYPE {
				return true
			}
			for _, s := range declared.Specs {
				one := s.(*ast.TypeSpec)
				if structure, ok := one.Type.(*ast.StructType); ok {
					c.types[one.Name.Name] = declared.Doc.Text()
					names[one.Name.Name] = readFields(one.Name.Name, structure, raw)
				}
			}
			return false
		})
	}
	for kind, text := range c.types {
		if rest, ok := strings.CutPrefix(text, kind); ok {
			c.types[kind] = kind + inFile(rest, "", names[kind], names)
		}
	}
	for path, text := range raw {
		kind, field, _ := strings.Cut(path, ".")
		c.fields[path] = inFile(text, field, names[kind], names)
	}
	return c
}

func readFields(kind string, structure *ast.StructType, raw map[string]string) map[string]string {
	keys := map[string]string{}
	for _, f := range structure.Fields.List {
		name := "TypeMeta" // embedded
		if len(f.Names) > 0 {
			name = f.Names[0].Name
		}
		key, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
		keys[name] = key
		raw[kind+"."+name] = f.Doc.Text()
	}
	return keys
}

var (
	word   = regexp.MustCompile(`\b[A-Z][A-Za-z]*(\.[A-Z][A-Za-z]*)?\b`)
	humps  = regexp.MustCompile(`[a-z][A-Z]|[A-Z]{2}[a-z]`)
	small  = regexp.MustCompile(`[a-z]`)
	spaces = regexp.MustCompile(`\s+`)
	// forGo is a sentence with a link that only Go's documentation follows.
	forGo = regexp.MustCompile(`[^.]*\[[A-Z][A-Za-z.]*\][^.]*\.`)
)

// inFile puts keys in the place of Go's names of fields: of the field itself where
// the comment begins, of fields of the same type, and of those of others that no
// other word looks like.
func inFile(text, own string, same map[string]string, all map[string]map[string]string) string {
	text = strings.TrimRight(forGo.ReplaceAllString(spaces.ReplaceAllString(text, " "), ""), " ")
	if rest, ok := strings.CutPrefix(text, own); ok && same[own] != "" {
		return same[own] + inFile(rest, "", same, all)
	}
	return word.ReplaceAllStringFunc(text, func(w string) string {
		name := w
		if _, field, ok := strings.Cut(w, "."); ok {
			name = field
		}
		key := same[name]
		switch {
		case name == "Node" || !small.MatchString(name):
			return w
		case key != "" && (humps.MatchString(name) || !begins(text, w)):
			return key
		case !humps.MatchString(name):
			return w
		}
		for _, keys := range all {
			if key := keys[name]; key != "" {
				return key
			}
		}
		return w
	})
}

// begins is true for a word that only the beginning of a sentence made large.
func begins(text, w string) bool {
	return strings.HasPrefix(text, w) || strings.Contains(text, ". "+w)
}

// defaults are what holds for fields that a file leaves out, by type and key.
func defaults() map[string]any {
	found := map[string]any{}
	whole := Default()
	collect(reflect.ValueOf(whole), found)
	for _, kind := range backends() {
		b := Backend{Type: kind}
		switch kind {
		case BackendCRI:
			b.CRI = &CRI{SSH: &SSH{}}
		case BackendECS:
			b.ECS = &ECS{EBS: &ECSVolumes{}, Prices: &ECSPrices{}}
		}
		b.fill()
		collect(reflect.ValueOf(b), found)
	}
	for _, required := range []string{"Configuration.apiVersion", "Configuration.kind", "Backend.type"} {
		delete(found, required)
	}
	for _, f := range fields(reflect.TypeFor[NodeEntry]()) { // entries take over what stands outside
		delete(found, "NodeEntry."+f.key)
	}
	return found
}

func collect(v reflect.Value, found map[string]any) {
	for f := range fieldsOf(v.Type()) {
		value := v.FieldByIndex(f.Index)
		switch {
		case value.Kind() == reflect.Pointer && value.IsNil(), key(f) == "":
		case f.Type == reflect.TypeFor[*Quantity](), f.Type == reflect.TypeFor[Duration]():
			if !value.IsZero() {
				found[v.Type().Name()+"."+key(f)] = asJSON(value.Interface())
			}
		case value.Kind() == reflect.Pointer:
			collect(value.Elem(), found)
		case value.Kind() == reflect.Struct:
			collect(value, found)
		case !value.IsZero() || value.Kind() == reflect.Bool:
			found[v.Type().Name()+"."+key(f)] = asJSON(value.Interface())
		}
	}
}
