package syncloop

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestDecisionsArePure: nothing that decides does I/O, takes a lock, starts a
// goroutine or asks for the time.
func TestDecisionsArePure(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	pure := []string{"container_status.go", "hook.go", "member.go", "phase.go", "probes.go", "restart.go", "view.go"}
	allowed := []string{
		"cmp", "encoding/json", "errors", "fmt", "slices", "strconv", "strings", "time",
		"k8s.io/api/core/v1", "k8s.io/apimachinery/pkg/api/resource", "k8s.io/apimachinery/pkg/apis/meta/v1",
		module + "/admit", module + "/hooks", module + "/images", module + "/prober", module + "/resolve", module + "/volumes",
	}
	checked := 0
	for _, f := range files {
		name := f.Name()
		if strings.HasSuffix(name, "_test.go") || !strings.HasPrefix(name, "plan") && !slices.Contains(pure, name) {
			continue
		}
		checked++
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range file.Imports {
			if path, err := strconv.Unquote(i.Path.Value); err != nil || path != backendPackage && !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s", name, path)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool { checkPure(t, name, n); return true })
	}
	if checked < len(pure)+5 {
		t.Errorf("only %d files checked", checked)
	}
}

func checkPure(t *testing.T, name string, n ast.Node) {
	t.Helper()
	clock := []string{"Now", "Since", "Until", "After", "NewTimer", "Sleep"}
	switch n := n.(type) {
	case *ast.GoStmt, *ast.SendStmt, *ast.SelectStmt:
		t.Errorf("%s starts a goroutine or uses a channel", name)
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clock, n.Sel.Name) {
			t.Errorf("%s calls time.%s", name, n.Sel.Name)
		}
	}
}

const (
	module         = "github.com/burstlet/burstlet/syncloop"
	backendPackage = "github.com/burstlet/burstlet/backend"
)
