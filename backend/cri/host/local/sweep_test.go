package local

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// sweepDirs are a directory of pods' logs and one of links.
type sweepDirs struct {
	t           *testing.T
	host        *Host
	logs, links string
}

func newSweepDirs(t *testing.T) sweepDirs {
	t.Helper()
	root := t.TempDir()
	cgroups := fakeTree(t, map[string]string{"memory/cgroup.procs": "", "memory/top/podu1/": "", "memory/top/podu2/": ""})
	d := sweepDirs{t, New(Options{CgroupRoot: cgroups}), filepath.Join(root, "pods"), filepath.Join(root, "containers")}
	for _, dir := range []string{d.logs, d.links} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// pod makes the log directory of a pod, with the mark of a node.
func (d sweepDirs) pod(name, node string) {
	d.t.Helper()
	dir := filepath.Join(d.logs, name)
	if err := os.MkdirAll(filepath.Join(dir, "c"), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "c", "0.log"), nil, 0o600); err != nil {
		d.t.Fatal(err)
	}
	if node != "" {
		if err := os.WriteFile(filepath.Join(dir, host.LogMark), []byte(node), 0o600); err != nil {
			d.t.Fatal(err)
		}
	}
}

func (d sweepDirs) link(name, target string) {
	d.t.Helper()
	if err := os.Symlink(target, filepath.Join(d.links, name)); err != nil {
		d.t.Fatal(err)
	}
}

// sweep does what Sweep does that much later.
func (d sweepDirs) sweep(by time.Duration, s host.Sweep) {
	d.t.Helper()
	s.PodLogs, s.Links = d.logs, d.links
	before := time.Now().Add(by - sweepAge)
	if err := d.host.sweepLogs(d.t.Context(), s, before); err != nil {
		d.t.Error(err)
	}
	if err := sweepLinks(d.t.Context(), s, before); err != nil {
		d.t.Error(err)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestSweepRemovesLogsOfPodsThatAreGone(t *testing.T) {
	d := newSweepDirs(t)
	d.pod("ns_gone_u1", "node-a")
	d.pod("ns_kept_u2", "node-a")
	d.pod("ns_others_u3", "node-b")
	d.pod("ns_longer_u4", "node-ab")
	d.pod("ns_unmarked_u5", "")
	d.pod("no-pod", "node-a")
	d.pod("__", "node-a")
	all := names(t, d.logs)
	keep := host.Sweep{KeepUIDs: []string{"u2"}, Node: "node-a"}
	d.sweep(0, keep)
	if got := names(t, d.logs); !slices.Equal(got, all) {
		t.Errorf("%v is left of what is new, want all", got)
	}
	d.sweep(time.Hour, host.Sweep{})
	if got := names(t, d.logs); !slices.Equal(got, all) {
		t.Errorf("%v is left for no node, want all", got)
	}
	d.sweep(time.Hour, keep)
	want := []string{"__", "no-pod", "ns_kept_u2", "ns_longer_u4", "ns_others_u3", "ns_unmarked_u5"}
	if got := names(t, d.logs); !slices.Equal(got, want) {
		t.Errorf("%v is left, want %v", got, want)
	}
}

// TestSweepRemovesCgroupsOfPodsThatAreGone: those that a launch made which came no
// further, of whom the log directory tells.
func TestSweepRemovesCgroupsOfPodsThatAreGone(t *testing.T) {
	d := newSweepDirs(t)
	for _, uid := range []string{"u1", "u2"} {
		mark := host.Ownership{Node: "node-a", Cgroup: "/top/pod" + uid}
		d.pod("ns_pod_"+uid, string(mark.Bytes()))
	}
	d.sweep(time.Hour, host.Sweep{KeepUIDs: []string{"u2"}, Node: "node-a"})
	if got := names(t, d.logs); !slices.Equal(got, []string{"ns_pod_u2"}) {
		t.Errorf("logs %v are left", got)
	}
	if got := names(t, filepath.Join(d.host.opts.CgroupRoot, "memory/top")); !slices.Equal(got, []string{"podu2"}) {
		t.Errorf("cgroups %v are left", got)
	}
}

// TestSweepRemovesACgroupThatADiscardCouldNot: the kernel held it for too long. Of the logs the
// mark alone stays, by which it is found.
func TestSweepRemovesACgroupThatADiscardCouldNot(t *testing.T) {
	d := newSweepDirs(t)
	mark := host.Ownership{Node: "node-a", Cgroup: "/top/podu1"}
	d.pod("ns_pod_u1", string(mark.Bytes()))
	cgroups := filepath.Join(d.host.opts.CgroupRoot, "memory/top")
	held := filepath.Join(cgroups, "podu1", "held") // rmdir fails
	if err := os.WriteFile(held, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(d.logs, "ns_pod_u1")
	for range 2 {
		_, err := d.host.Discard(t.Context(), host.Discard{Cgroup: mark.PodCgroup(), Trees: []string{dir}})
		if err == nil {
			t.Fatal("a cgroup that is held went")
		}
		if got := names(t, dir); !slices.Equal(got, []string{host.LogMark}) {
			t.Fatalf("%v is left of the logs, want the mark", got)
		}
	}
	if err := os.Remove(held); err != nil {
		t.Fatal(err)
	}
	d.sweep(time.Hour, host.Sweep{Node: "node-a"})
	if got := append(names(t, d.logs), names(t, cgroups)...); !slices.Equal(got, []string{"podu2"}) {
		t.Errorf("logs and cgroups %v are left", got)
	}
}

func TestSweepFollowsNoLink(t *testing.T) {
	d := newSweepDirs(t)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.pod("ns_gone_u1", "n")
	if err := os.Symlink(outside, filepath.Join(d.logs, "ns_gone_u1", "c", "out")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(d.logs, "ns_link_u2")); err != nil {
		t.Fatal(err)
	}
	d.sweep(time.Hour, host.Sweep{Node: "n"})
	if got := names(t, d.logs); !slices.Equal(got, []string{"ns_link_u2"}) {
		t.Errorf("%v is left", got)
	}
	if got := names(t, outside); len(got) != 1 {
		t.Errorf("outside %v is left", got)
	}
}

func TestSweepGoesOnWhereItWasCutOff(t *testing.T) {
	d := newSweepDirs(t)
	d.pod("ns_half_u1", "n")
	if err := os.RemoveAll(filepath.Join(d.logs, "ns_half_u1", "c")); err != nil {
		t.Fatal(err)
	}
	d.sweep(time.Hour, host.Sweep{Node: "n"})
	if got := names(t, d.logs); len(got) > 0 {
		t.Errorf("%v is left", got)
	}
}

func TestSweepRemovesLinksThatLeadNowhere(t *testing.T) {
	d := newSweepDirs(t)
	d.pod("ns_kept_u2", "n")
	dir := filepath.Join(d.logs, "ns_kept_u2", "c")
	if err := os.WriteFile(filepath.Join(dir, "1.log.20260101-000000"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.link("alive.log", filepath.Join(dir, "0.log"))
	d.link("between-two-files.log", filepath.Join(dir, "1.log"))
	d.link("dead.log", filepath.Join(dir, "2.log"))
	d.link("dead-pod.log", filepath.Join(d.logs, "ns_gone_u1", "c", "0.log"))
	d.link("elsewhere.log", filepath.Join(d.links, "none"))
	d.link("beside.log", d.logs+"x/c/0.log")
	d.link("relative.log", "none")
	if err := os.WriteFile(filepath.Join(d.links, "file.log"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	all := names(t, d.links)
	d.sweep(0, host.Sweep{Node: "n", KeepUIDs: []string{"u2"}})
	if got := names(t, d.links); !slices.Equal(got, all) {
		t.Errorf("%v is left of what is new, want all", got)
	}
	d.sweep(time.Hour, host.Sweep{Node: "n", KeepUIDs: []string{"u2"}})
	want := []string{"alive.log", "beside.log", "between-two-files.log", "elsewhere.log", "file.log", "relative.log"}
	if got := names(t, d.links); !slices.Equal(got, want) {
		t.Errorf("%v is left, want %v", got, want)
	}
}

func TestSweepOfNothing(t *testing.T) {
	dir := t.TempDir()
	for _, s := range []host.Sweep{{}, {PodLogs: filepath.Join(dir, "a"), Links: filepath.Join(dir, "b"), Node: "n"}} {
		if err := New(Options{}).Sweep(t.Context(), s); err != nil {
			t.Error(err)
		}
	}
}
