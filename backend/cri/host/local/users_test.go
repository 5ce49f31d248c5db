package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/burstlet/burstlet/backend/class"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// usersHost is a host with a directory of logs, whose /etc/subuid and subgid say this;
// empty: there is no such file.
func usersHost(t *testing.T, subuid, subgid string) (h *Host, logs string) {
	t.Helper()
	etc := t.TempDir()
	for name, text := range map[string]string{"subuid": subuid, "subgid": subgid} {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(etc, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	logs = fakeTree(t, map[string]string{"a-file": "", "of-somebody-else/": ""})
	return New(Options{EtcRoot: etc}), logs
}

// askUsers prepares a pod of a node as a launch does, or as the start of a container.
func askUsers(t *testing.T, h *Host, logs, pod string, given bool) (uint32, error) {
	t.Helper()
	mark := filepath.Join(logs, pod, host.LogMark)
	done, err := h.Prepare(t.Context(), host.Preparation{
		Dirs: []string{filepath.Dir(mark)},
		Writes: []host.Write{{
			Path: mark, Data: host.Ownership{Node: "n", Cgroup: "/top/" + pod}.Bytes(), Mode: 0o644, KeepExisting: true,
		}},
		Users: &host.Users{Mark: mark, Given: given},
	})
	return done.FirstUser, err
}

// A pod keeps its ids for as long as its log directory stands; nobody else gets them
// until then (kubelet: pkg/kubelet/userns).
func TestUsersOfPods(t *testing.T) {
	const three = "root:100000:65536\nkubelet:131072:196608\n"
	h, logs := usersHost(t, three, three)
	if _, err := askUsers(t, h, logs, "p1", true); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a pod with a sandbox and no ids on record: %v, want that there are none", err)
	}
	has := map[uint32]string{}
	for _, pod := range []string{"p1", "p2", "p3"} {
		first, err := askUsers(t, h, logs, pod, false)
		if err != nil {
			t.Fatal(err)
		}
		if other := has[first]; other != "" || first < 131072 || first > 131072+2*host.UserIDs || first%host.UserIDs != 0 {
			t.Errorf("%s has the ids from %d on (%q has them)", pod, first, other)
		}
		has[first] = pod
		keepsUsers(t, h, logs, pod, first)
	}
	if _, err := askUsers(t, h, logs, "p4", false); class.Of(err) != "Unsupported" ||
		!strings.Contains(err.Error(), "/etc/subuid") {
		t.Errorf("with all ids taken: %v", err)
	}
	if err := only(h.Discard(t.Context(), host.Discard{Trees: []string{filepath.Join(logs, "p2")}})); err != nil {
		t.Fatal(err)
	}
	if first, err := askUsers(t, h, logs, "p4", false); err != nil || has[first] != "p2" {
		t.Errorf("after p2 has gone: %d, %v, want its ids", first, err)
	}
}

// keepsUsers: a pod has the same ids later, and its mark says the rest as before.
func keepsUsers(t *testing.T, h *Host, logs, pod string, first uint32) {
	t.Helper()
	for _, given := range []bool{false, true} {
		if again, err := askUsers(t, New(h.opts), logs, pod, given); err != nil || again != first {
			t.Errorf("%s has %d, %v later, want %d", pod, again, err, first)
		}
	}
	if o := markOf(filepath.Join(logs, pod)); o.Node != "n" || o.Cgroup != "/top/"+pod {
		t.Errorf("the mark of %s has become %+v", pod, o)
	}
}

// Several nodes of a host ask at once.
func TestUsersAreGivenOnce(t *testing.T) {
	const pods = 40
	text := "kubelet:65536:2621440\n" // as many as there are pods
	h, logs := usersHost(t, text, text)
	var all sync.WaitGroup
	firsts := make([]uint32, pods)
	for i := range pods {
		all.Go(func() {
			var err error
			if firsts[i], err = askUsers(t, New(h.opts), logs, "p"+string(rune('A'+i)), false); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	seen := map[uint32]bool{}
	for _, first := range firsts {
		if seen[first] {
			t.Errorf("two pods have the ids from %d on", first)
		}
		seen[first] = true
	}
}

func TestSubordinateIDs(t *testing.T) {
	for name, tt := range map[string]struct {
		subuid, subgid string
		want           userRanges // zero: refused
	}{
		"no files":        {"", "", allUserRanges},
		"of others":       {"a:65536:65536\n", "b:1:2\n", allUserRanges},
		"of a kubelet":    {"a:1:2\nkubelet:131072:131072", "kubelet:131072:131072\n", userRanges{2, 2}},
		"of users alone":  {"kubelet:131072:131072", "", userRanges{}},
		"root's":          {"kubelet:0:131072", "kubelet:0:131072", userRanges{}},
		"of half a range": {"kubelet:100000:65536", "kubelet:100000:65536", userRanges{}},
		"too short":       {"kubelet:65536:1000", "kubelet:65536:1000", userRanges{}},
		"twice": {
			"kubelet:65536:65536\nkubelet:131072:65536", "kubelet:65536:65536\nkubelet:131072:65536", userRanges{},
		},
		"beyond the last":  {"kubelet:4294901760:65536", "kubelet:4294901760:65536", userRanges{}},
		"without a number": {"kubelet:65536", "kubelet:65536", userRanges{}},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := usersHost(t, tt.subuid, tt.subgid)
			got, err := h.userRanges()
			if got != tt.want || (err != nil) != (tt.want == userRanges{}) {
				t.Errorf("%+v, %v, want %+v", got, err, tt.want)
			}
			if err != nil && class.Of(err) != "Unsupported" {
				t.Errorf("error %v of class %s", err, class.Of(err))
			}
		})
	}
	if last, ok := allUserRanges.free(nil, allUserRanges.count-1); !ok || last != 0xfffe0000 {
		t.Errorf("the last range begins with %#x", last)
	}
}
