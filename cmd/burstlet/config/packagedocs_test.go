package config_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// stated are the figures of package comments. Each is what a constant says, or has a reason
// why no constant can say it.
var stated = []struct {
	pkg, says string
	// dir and name are the constant's, or the list's whose elements are counted.
	dir, name string
	value     any
	why       string
}{
	{pkg: "backend", says: "one of nine classes", dir: "backend/class", name: "all", value: 9},
	{
		pkg: "backend/ecs", says: "described every second or two",
		dir: "backend/ecs/task", name: "readMoving", value: time.Second,
	},
	{
		pkg: "backend/ecs", says: "described every 5 seconds to a minute",
		dir: "backend/ecs/task", name: "readRest", value: 5 * time.Second,
	},
	{
		pkg: "backend/ecs", says: "to a minute by how many there are",
		dir: "backend/ecs/task", name: "readSlowest", value: time.Minute,
	},
	{pkg: "backend/ecs", says: "asked for a hundred at a time", dir: "backend/ecs", name: "batch", value: 100},
	{pkg: "backend/ecs", says: "2 to 120 seconds", dir: "backend/ecs", name: "maxGrace", value: 120 * time.Second},
	{pkg: "backend/ecs", says: "2 to 120 seconds", dir: "backend/ecs/taskdef", name: "maxStop", value: 120},
	{pkg: "backend/cri/sshlink", says: "a small call 4 to 8 ms", why: "was measured"},
	{pkg: "backend/sim/shell", says: "listen from 3 s after the start", why: "repeats the example's ready-after=3s"},
	{pkg: "backend/sim/shell", says: "500 from 10 s after it", why: "repeats the example's fail-after=10s"},
	{
		pkg: "statusmgr", says: "250 ms for a pod that the API has heard nothing of",
		dir: "statusmgr", name: "calmFirst", value: 250 * time.Millisecond,
	},
	{pkg: "statusmgr", says: "then 1 s (urgency.go)", dir: "statusmgr", name: "calmLater", value: time.Second},
	{
		pkg: "syncloop/resolve/objectcache", says: "trust bundles LIST, once a minute",
		dir: "syncloop/resolve/objectcache", name: "bundleRefresh", value: time.Minute,
	},
	{
		pkg: "syncloop/resolve/objectcache", says: "asked again after 10, 20, 40 … ms",
		dir: "syncloop/resolve/objectcache", name: "refusedBase", value: 10 * time.Millisecond,
	},
	{
		pkg: "syncloop/resolve/objectcache", says: "see only after 5 s",
		dir: "syncloop/resolve/objectcache", name: "patience", value: 5 * time.Second,
	},
	{
		pkg: "syncloop/resolve/objectcache", says: "once a minute at last",
		dir: "syncloop/resolve/objectcache", name: "retryMax", value: time.Minute,
	},
	{pkg: "test/cmd/lanes", says: "More than two such tests", dir: "test/cmd/lanes", name: "maxFlaky", value: 2},
	{pkg: "test/parts/debianhost", says: "up after 15 to 80 s", why: "was measured"},
	{pkg: "test/parts/debianhost", says: "takes 10 to 25 s", why: "was measured"},
	{pkg: "test/suite/soak", says: "cut into ten parts", dir: "test/suite/soak", name: "tenths", value: 10},
}

// TestStatedFigures holds the figures of package comments to the constants that they are
// about, and lets no length of time stand there that is not in the table.
func TestStatedFigures(t *testing.T) {
	all := sources(t)
	for _, s := range stated {
		p := all[s.pkg]
		if p == nil || !strings.Contains(p.text(), s.says) {
			t.Errorf("the comment of package %s does not say %q: mend this test's table", s.pkg, s.says)
			continue
		}
		if s.name == "" {
			if s.why == "" {
				t.Errorf("package %s, %q: neither a constant nor a reason", s.pkg, s.says)
			}
			continue
		}
		if got, err := all[s.dir].value(s.name); err != nil {
			t.Error(err)
		} else if got != s.value {
			t.Errorf("package %s says %q, but %s in %s is %v", s.pkg, s.says, s.name, s.dir, got)
		}
	}
	for dir, p := range all {
		text := p.text()
		for _, s := range stated {
			if s.pkg == dir {
				text = strings.ReplaceAll(text, s.says, "")
			}
		}
		for _, figure := range lengthOfTime.FindAllString(text, -1) {
			t.Errorf("package %s says %q, which no constant holds: add a row to this test's table", dir, figure)
		}
	}
}

var (
	lengthOfTime = regexp.MustCompile(`\b\d+ (?:ms|s|m|h|milliseconds?|seconds?|minutes?|hours?)\b`)
	namedFile    = regexp.MustCompile(`(kubelet: )?((?:[\w.*-]+/)*[\w*-][\w.*-]*\.(?:go|md|ya?ml|sh|json)(?:\.txt)?)\b`)
	namedPackage = regexp.MustCompile(`(?:\(|\b(?:of|in|by|for|as) )packages? ([a-z][a-z0-9/]*)`)
	docLink      = regexp.MustCompile(`(?:^|[^\w\]])\[([\w./-]+)\]`)
)

// TestPackageComments follows what package comments name: files of the project, packages,
// and [links] to what packages declare. Files of the kubelet are written "kubelet: path" or
// with their whole path, pkg/kubelet/...
func TestPackageComments(t *testing.T) {
	all := sources(t)
	if len(all) < 100 {
		t.Fatalf("%d packages: looked in the wrong place", len(all))
	}
	var files, links int
	for dir, p := range all {
		for _, found := range namedFile.FindAllStringSubmatch(p.text(), -1) {
			upstream := found[1] != "" || strings.HasPrefix(found[2], "pkg/kubelet/")
			if files++; !upstream && !isThere(dir, found[2]) {
				t.Errorf("package %s: there is no file %s, neither beside it nor from the root", dir, found[2])
			}
		}
		for _, found := range namedPackage.FindAllStringSubmatch(p.text(), -1) {
			if len(named(all, found[1])) == 0 && found[1] != "fs" && found[1] != "time" {
				t.Errorf("package %s: there is no package %s", dir, found[1])
			}
		}
		for _, found := range docLink.FindAllStringSubmatch(p.prose(), -1) {
			if links++; !p.declares(all, found[1]) {
				t.Errorf("package %s: [%s] is not declared", dir, found[1])
			}
		}
	}
	if files < 200 || links < 100 {
		t.Errorf("only %d files and %d links are named: the test no longer sees them", files, links)
	}
}

// isThere is true for a file, or pattern of files, beside the package or from the root.
func isThere(dir, name string) bool {
	for _, at := range []string{filepath.Join(root, dir, name), filepath.Join(root, name)} {
		if found, err := filepath.Glob(at); err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}

// TestMapOfPackages: the map in docs/architecture.md names every package of the product.
func TestMapOfPackages(t *testing.T) {
	drawing, _, ok := strings.Cut(read(t, filepath.Join(root, "docs/architecture.md")), "Imports point one way")
	if !ok {
		t.Fatal("docs/architecture.md has no map before its arrows")
	}
	for dir := range sources(t) {
		if top, _, _ := strings.Cut(dir, "/"); top == "test" || top == "tools" {
			continue
		}
		if name := regexp.MustCompile(`\b` + regexp.QuoteMeta(filepath.Base(dir)) + `/`); !name.MatchString(drawing) {
			t.Errorf("docs/architecture.md: the map lacks %s", dir)
		}
	}
}
