package main

import (
	"go/parser"
	"go/token"
	"slices"
	"testing"
)

func TestWhatIsConcurrent(t *testing.T) {
	for code, want := range map[string]bool{
		"func f() int { return 1 }":                                false,
		"func f() { go func() {}() }":                              true,
		"var done chan struct{}":                                   true,
		"func f() { select {} }":                                   true,
		"func TestX(t *testing.T) { t.Parallel() }":                true,
		"func f(g group) { g.Go(func() {}) }":                      true,
		"import \"sync\"\nvar mu sync.Mutex":                       true,
		"import \"strings\"\nvar s strings.Builder":                false,
		"import \"sync/atomic\"\nvar n atomic.Int64":               true,
		"// go func() {}() in a comment, and sync":                 false,
		"import \"net/http/httptest\"\nvar _ = httptest.NewServer": true,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+code, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := isConcurrent(file); got != want {
			t.Errorf("%q: concurrent %v, want %v", code, got, want)
		}
	}
}

// The gate has the race detector for packages of the engine and the backends, but not for those that
// are sequential.
func TestTheGateLooksForRacesWhereThereCanBeSome(t *testing.T) {
	atRoot(t)
	suites, err := suitesOf("gate", packagesOf(t, "./..."))
	if err != nil {
		t.Fatal(err)
	}
	raced := map[string]bool{}
	for _, s := range suites {
		for _, path := range s.packages {
			raced[path] = s.race
		}
	}
	for path, want := range map[string]bool{
		"/syncloop": true, "/syncloop/pleg": true, "/statusmgr": true, "/provider": true, "/backend/cri": true,
		"/backend/ecs": true, "/cmd/burstlet": true, "/syncloop/plan": false, "/backend/cri/fields": false,
	} {
		if raced[module+path] != want {
			t.Errorf("%s: with the race detector %v, want %v", path, raced[module+path], want)
		}
	}
	if _, err := sequential([]string{module + "/nowhere"}); err != nil {
		t.Errorf("a package without files: %v", err)
	}
	if got, err := sequential([]string{module + "/test/cmd/lanes/testdata"}); err != nil || !slices.Equal(got, nil) {
		t.Errorf("a directory without code: %v, %v", got, err)
	}
}
