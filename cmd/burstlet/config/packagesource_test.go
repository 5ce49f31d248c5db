package config_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// source is a directory's Go files, parsed.
type source struct {
	dir   string
	files []*ast.File
	// names are what is declared at the top, and as "Type.Name" methods and fields.
	names   map[string]bool
	imports map[string]bool
}

// sources are the project's packages by directory, but for what testdata holds.
func sources(t *testing.T) map[string]*source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// parsed reads the project once for all tests.
var parsed = sync.OnceValues(func() (map[string]*source, error) {
	all, fset := map[string]*source{}, token.NewFileSet()
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			// Another test's directory may go while this one looks.
			if errors.Is(err, fs.ErrNotExist) && file != root {
				return nil
			}
			return err
		}
		if d.IsDir() {
			if name := d.Name(); file != root && (name == "testdata" || name == "bin" || name[0] == '.' || name[0] == '_') {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(fset, file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse %s: %w", file, err)
		}
		dir, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		p := all[dir]
		if p == nil {
			p = &source{dir: dir, names: map[string]bool{}, imports: map[string]bool{}}
			all[dir] = p
		}
		p.files = append(p.files, parsed)
		p.index(parsed)
		return nil
	})
	return all, err
})

// prose is the package's comment without drawings and commands, which are indented.
func (p *source) prose() string {
	var kept []string
	for line := range strings.Lines(p.comment()) {
		if !strings.HasPrefix(line, "\t") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// text is the package's comment as one line.
func (p *source) text() string { return strings.Join(strings.Fields(p.comment()), " ") }

func (p *source) comment() string {
	var all strings.Builder
	for _, f := range p.files {
		all.WriteString(f.Doc.Text())
	}
	return all.String()
}

func (p *source) index(f *ast.File) {
	for _, i := range f.Imports {
		p.imports[strings.Trim(i.Path.Value, `"`)] = true
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = receiver(d.Recv.List[0].Type) + "." + name
			}
			p.names[name] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				p.indexSpec(spec)
			}
		}
	}
}

func (p *source) indexSpec(spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			p.names[name.Name] = true
		}
	case *ast.TypeSpec:
		p.names[spec.Name.Name] = true
		var members *ast.FieldList
		switch t := spec.Type.(type) {
		case *ast.StructType:
			members = t.Fields
		case *ast.InterfaceType:
			members = t.Methods
		}
		if members == nil {
			return
		}
		for _, field := range members.List {
			for _, name := range field.Names {
				p.names[spec.Name.Name+"."+name.Name] = true
			}
		}
	}
}

// receiver is the name of a method's type, without its star and parameters.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// declares is true for a doc link that leads somewhere: Name or Type.Name of the package
// itself, package.Name, package.Type.Name, or the path of a package. What packages outside
// the project declare is not read: they have to be imported.
func (p *source) declares(all map[string]*source, link string) bool {
	if p.names[link] {
		return true
	}
	if module := "github.com/burstlet/burstlet/"; strings.HasPrefix(link, module) {
		return all[strings.TrimPrefix(link, module)] != nil
	}
	if at := strings.LastIndex(link, "/"); at >= 0 {
		pkg, _, _ := strings.Cut(link[at:], ".")
		return p.imports[link[:at]+pkg]
	}
	pkg, name, _ := strings.Cut(link, ".")
	for _, other := range named(all, pkg) {
		if name == "" || other.names[name] {
			return true
		}
	}
	return false
}

// named are the packages of a name, which may have parts of the path before it.
func named(all map[string]*source, name string) []*source {
	var found []*source
	for dir, p := range all {
		if strings.HasSuffix("/"+dir, "/"+name) {
			found = append(found, p)
		}
	}
	return found
}

// value is what a constant at the top of the package is: a time.Duration, else an int. Of a
// list it is the number of elements.
func (p *source) value(name string) (any, error) {
	if p == nil {
		return nil, fmt.Errorf("no package has %s", name)
	}
	for _, f := range p.files {
		for _, d := range f.Decls {
			d, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range d.Specs {
				spec, ok := spec.(*ast.ValueSpec)
				if !ok {
					continue
				}
				for i, n := range spec.Names {
					if n.Name == name && i < len(spec.Values) {
						return evaluate(spec.Values[i])
					}
				}
			}
		}
	}
	return nil, fmt.Errorf("package %s declares no value %s", p.dir, name)
}

// units are the lengths of time that expressions are made of.
var units = map[string]time.Duration{
	"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
}

func evaluate(e ast.Expr) (any, error) {
	switch e := e.(type) {
	case *ast.CompositeLit:
		return len(e.Elts), nil
	case *ast.BasicLit:
		if e.Kind == token.INT {
			return strconv.Atoi(e.Value)
		}
	case *ast.SelectorExpr:
		if unit, ok := units[e.Sel.Name]; ok {
			return unit, nil
		}
	case *ast.BinaryExpr:
		return product(e)
	}
	return nil, fmt.Errorf("%T is no plain number or length of time", e)
}

// product is a number of units.
func product(e *ast.BinaryExpr) (any, error) {
	x, err := evaluate(e.X)
	y, errY := evaluate(e.Y)
	if err := errors.Join(err, errY); err != nil {
		return nil, err
	}
	number, isNumber := x.(int)
	unit, isUnit := y.(time.Duration)
	if e.Op != token.MUL || !isNumber || !isUnit {
		return nil, fmt.Errorf("%s of %T and %T is no length of time", e.Op, x, y)
	}
	return time.Duration(number) * unit, nil
}
