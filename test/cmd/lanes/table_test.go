package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// late is a test that says which lane it runs from.
type late struct {
	file, name, lane string
}

// asWhole are packages that CONTRIBUTING.md names as a whole: their tests start a cluster or a
// host, so their first lane is the gate. Those that are in the slowest lane are named one by one.
var asWhole = regexp.MustCompile(`^test/(suite/(e2e|install|monitoring|conformance)|parts/burstletimage)/`)

// TestSlowTestsAreListed: CONTRIBUTING.md says of each test that is not in the fastest lane in which
// it is, and lists none that is gone.
func TestSlowTestsAreListed(t *testing.T) {
	atRoot(t)
	page, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := slowTests(string(page))
	if len(listed) < 20 {
		t.Fatalf("the table of slow tests has %d names: was it moved?", len(listed))
	}
	for _, l := range lateTests(t) {
		if l.lane == "gate" && asWhole.MatchString(l.file) {
			continue
		}
		if !slices.ContainsFunc(listed[l.name], func(lane string) bool { return strings.Contains(lane, l.lane) }) {
			t.Errorf("%s: %s runs from lane %s on; rows of CONTRIBUTING.md say %q", l.file, l.name, l.lane, listed[l.name])
		}
	}
	there := testsThere(t)
	for name := range listed {
		if !slices.ContainsFunc(there, func(n string) bool { return n == name }) {
			t.Errorf("CONTRIBUTING.md lists %s, which is gone", name)
		}
	}
}

// slowTests returns the lanes that the rows of the page's table give each test that they name.
func slowTests(page string) map[string][]string {
	_, table, _ := strings.Cut(page, "| test | lane |")
	table, _, _ = strings.Cut(table, "\n\n")
	name := regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
	listed := map[string][]string{}
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) < 4 {
			continue
		}
		for _, found := range name.FindAllStringSubmatch(cells[1], -1) {
			listed[found[1]] = append(listed[found[1]], cells[2])
		}
	}
	return listed
}

// lateTests finds calls of lane.From and lane.RacedFrom in tests.
func lateTests(t *testing.T) (found []late) {
	t.Helper()
	eachTest(t, func(file string, f *ast.FuncDecl) {
		ast.Inspect(f.Body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 2 {
				return true
			}
			fun, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || fun.Sel.Name != "From" && fun.Sel.Name != "RacedFrom" {
				return true
			}
			if pkg, ok := fun.X.(*ast.Ident); !ok || pkg.Name != "lane" {
				return true
			}
			if first, ok := call.Args[1].(*ast.SelectorExpr); ok {
				found = append(found, late{file, f.Name.Name, strings.ToLower(first.Sel.Name)})
			}
			return true
		})
	})
	if len(found) < 50 {
		t.Fatalf("%d tests name a lane: was package lane changed?", len(found))
	}
	return found
}

func testsThere(t *testing.T) (names []string) {
	t.Helper()
	eachTest(t, func(_ string, f *ast.FuncDecl) { names = append(names, f.Name.Name) })
	return names
}

// eachTest calls do for each test function of the checkout.
func eachTest(t *testing.T, do func(file string, f *ast.FuncDecl)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || len(path) > 1 && strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Body != nil && strings.HasPrefix(f.Name.Name, "Test") {
				do(filepath.ToSlash(path), f)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
