package local

import (
	"slices"
	"testing"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// A host tells whose pods it has, whatever processes run them, and forgets a node with the
// last of its pods.
func TestAHostTellsItsNodes(t *testing.T) {
	root := t.TempDir()
	h := New(Options{Root: root, CgroupRoot: fakeTree(t, v1(nil))})
	tells := func(when string, want ...string) {
		t.Helper()
		facts, err := h.Facts(t.Context())
		if noError(t, err); !slices.Equal(facts.Nodes, want) {
			t.Errorf("%s: nodes %q, want %q", when, facts.Nodes, want)
		}
	}
	tells("empty")
	place := func(node, uid string) host.PodDir {
		v := volume(root, "dir", host.KindDir, "h")
		v.Pod.Node, v.Pod.UID = node, uid
		noError(t, New(Options{}).Place(t.Context(), v)) // of another process
		return v.Pod
	}
	place("b", "u1")
	first, second := place("a", "u2"), place("a", "u3")
	putDir(t, root, "of-nobody")
	putFile(t, root+"/a-file", "")
	tells("with pods of two nodes", "a", "b")
	noError(t, h.Clear(t.Context(), first))
	tells("with a pod less", "a", "b")
	noError(t, h.Clear(t.Context(), second))
	tells("with a node less", "b")
}
