package config_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The page is what users copy from: its files and the README's must load, and
// its table must name every flag.
func TestOperationsPage(t *testing.T) {
	page := read(t, "../../../docs/operations.md")
	types := map[string]bool{}
	files := regexp.MustCompile("(?s)```yaml\n(apiVersion: burstlet.*?)```")
	for _, file := range files.FindAllStringSubmatch(page+read(t, "../../../README.md"), -1) {
		c := load(t, config.Sources{File: write(t, file[1])})
		types[c.Backend.Type] = true
	}
	for _, backend := range []string{config.BackendSim, config.BackendCRI, config.BackendECS} {
		if !types[backend] {
			t.Errorf("no example for backend %s", backend)
		}
	}
	for _, s := range config.Settings() {
		if row := "| `--" + s.Flag + "` | `" + s.Env() + "` | `" + s.Path + "` |"; !strings.Contains(page, row) {
			t.Errorf("no line %s", row)
		}
	}
}
