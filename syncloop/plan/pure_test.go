package plan

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPure: depguard holds what these packages import; here is what imports cannot
// show. Nothing that decides starts a goroutine, uses a channel or asks for the time.
func TestPure(t *testing.T) {
	for _, dir := range []string{".", "../allocation", "../eviction"} {
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		checked := 0
		for _, f := range files {
			name := filepath.Join(dir, f.Name())
			if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				continue
			}
			checked++
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool { checkPure(t, name, n); return true })
		}
		if checked < 3 {
			t.Errorf("only %d files of %s checked", checked, dir)
		}
	}
}

func checkPure(t *testing.T, name string, n ast.Node) {
	t.Helper()
	clock := []string{
		"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Sleep", "Tick",
	}
	switch n := n.(type) {
	case *ast.GoStmt, *ast.SendStmt, *ast.SelectStmt, *ast.ChanType:
		t.Errorf("%s starts a goroutine or uses a channel", name)
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			t.Errorf("%s receives from a channel", name)
		}
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clock, n.Sel.Name) {
			t.Errorf("%s calls time.%s", name, n.Sel.Name)
		}
	}
}
