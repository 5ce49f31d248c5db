package config_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

const root = "../../.."

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// documents are the pages for people: their paths, from the root.
func documents(t *testing.T) []string {
	t.Helper()
	pages := []string{
		"README.md", "CONTRIBUTING.md", "charts/burstlet/README.md", "deploy/aws/README.md", "deploy/kustomize/README.md",
	}
	found, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, file := range found {
		pages = append(pages, "docs/"+filepath.Base(file))
	}
	return pages
}

// Users copy from the documents: their configuration files must load, and the
// reference must name every flag.
func TestDocumentedFiles(t *testing.T) {
	types := map[string]bool{}
	files := regexp.MustCompile("(?s)```yaml\n(apiVersion: burstlet.*?)```")
	for _, page := range documents(t) {
		for _, file := range files.FindAllStringSubmatch(read(t, filepath.Join(root, page)), -1) {
			c := load(t, config.Sources{File: write(t, file[1])})
			types[c.Backend.Type] = true
		}
	}
	for _, backend := range []string{config.BackendSim, config.BackendCRI, config.BackendECS} {
		if !types[backend] {
			t.Errorf("no example for backend %s", backend)
		}
	}
	reference := read(t, filepath.Join(root, "docs/configuration.md"))
	for _, s := range config.Settings() {
		if row := "| `--" + s.Flag + "` | `" + s.Env() + "` | `" + s.Path + "` |"; !strings.Contains(reference, row) {
			t.Errorf("no line %s", row)
		}
	}
}

var (
	fenced   = regexp.MustCompile("(?s)```.*?```")
	heading  = regexp.MustCompile(`(?m)^#{1,6} +(.+)$`)
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	linkText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	noAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are those that GitHub gives to the headings of a page.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		text := noAnchor.ReplaceAllString(strings.ToLower(linkText.ReplaceAllString(h[1], "$1")), "")
		anchor := strings.ReplaceAll(text, " ", "-")
		for n := 1; all[anchor]; n++ {
			anchor = fmt.Sprintf("%s-%d", strings.ReplaceAll(text, " ", "-"), n)
		}
		all[anchor] = true
	}
	return all
}

// TestLinks follows every relative link of the documents to its file and heading.
func TestLinks(t *testing.T) {
	for _, page := range documents(t) {
		text := fenced.ReplaceAllString(read(t, filepath.Join(root, page)), "")
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(found[1], "://") || strings.HasPrefix(found[1], "mailto:") {
				continue
			}
			path, anchor, _ := strings.Cut(found[1], "#")
			target := filepath.Join(root, page)
			if path != "" {
				target = filepath.Join(root, filepath.Dir(page), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s is not there", page, found[1])
				continue
			}
			if anchor != "" && !anchors(read(t, target))[anchor] {
				t.Errorf("%s: %s has no heading %q", page, target, anchor)
			}
		}
	}
}

// TestNamedTests finds every test that the documents name: what they claim, it shows.
func TestNamedTests(t *testing.T) {
	named, declared := regexp.MustCompile("`(Test[A-Z]\\w*)[`/]"), regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	there := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == ".git" {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, "_test.go") {
			for _, found := range declared.FindAllStringSubmatch(read(t, path), -1) {
				there[found[1]] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range documents(t) {
		for _, found := range named.FindAllStringSubmatch(read(t, filepath.Join(root, page)), -1) {
			if !there[found[1]] {
				t.Errorf("%s names %s, which is not there", page, found[1])
			}
		}
	}
}

func TestAnchors(t *testing.T) {
	page := "# A page\n## 8. EKS\n### `kubectl logs`, `exec` or [top](x.md) fails\n## Twice\n## Twice\n```\n# no heading\n```\n"
	want := []string{"a-page", "8-eks", "kubectl-logs-exec-or-top-fails", "twice", "twice-1"}
	got := anchors(page)
	for _, anchor := range want {
		if !got[anchor] {
			t.Errorf("no anchor %s in %v", anchor, got)
		}
	}
	if len(got) != len(want) {
		t.Errorf("anchors %v", got)
	}
}
