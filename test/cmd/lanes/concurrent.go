package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// concurrently are packages that start goroutines or are for code that several run at once.
var concurrently = []string{
	"sync", "sync/atomic", "testing/synctest", "net/http", "net/http/httptest", "os/exec", "golang.org/x/sync/errgroup",
}

// sequential returns those packages in which the race detector can find nothing: neither their
// code nor their tests start a goroutine, use a channel, run in parallel or import what does.
func sequential(paths []string) ([]string, error) {
	var all []string
	for _, path := range paths {
		yes, err := isSequential(filepath.FromSlash("." + strings.TrimPrefix(path, module)))
		if err != nil {
			return nil, fmt.Errorf("whether the code of %s is concurrent: %w", path, err)
		}
		if yes {
			all = append(all, path)
		}
	}
	return all, nil
}

func isSequential(dir string) (bool, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return false, err
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return false, err
		}
		if isConcurrent(file) {
			return false, nil
		}
	}
	return len(files) > 0, nil
}

func isConcurrent(file *ast.File) bool {
	for _, spec := range file.Imports {
		if path, err := strconv.Unquote(spec.Path.Value); err != nil || slices.Contains(concurrently, path) {
			return true
		}
	}
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt:
			found = true
		case *ast.SelectorExpr: // t.Parallel, and Go of any group
			found = found || n.Sel.Name == "Parallel" || n.Sel.Name == "Go"
		}
		return !found
	})
	return found
}
