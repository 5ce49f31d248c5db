package differential

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What must differ is made equal, all else is told.
func TestCompare(t *testing.T) {
	show := func(node, ip, id string, restarts int32, events ...*corev1.Event) shown {
		s, err := showPod(&corev1.Pod{Status: corev1.PodStatus{
			PodIP: ip, StartTime: &metav1.Time{Time: metav1.Now().Time},
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: "app", ContainerID: "containerd://" + strings.Repeat(id, 64), RestartCount: restarts},
			},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Message: "on " + node}},
		}}, events)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	event := func(reason, message string) *corev1.Event {
		return &corev1.Event{
			Type: "Normal", Reason: reason, Message: message,
			InvolvedObject: corev1.ObjectReference{FieldPath: "spec.containers{app}"},
		}
	}
	kubelet := show(
		theirs, "192.0.2.1", "a", 1, event("Started", "Container started"), event("Killing", "Stopping container app"),
	)
	if got := compare("k", kubelet, show(
		ours, "192.0.2.7", "b", 1, event("Started", "Container started"), event("Killing", "Stopping container app"),
	)); len(got) > 0 {
		t.Errorf("pods that are the same differ in %v", got)
	}
	var fields []string
	for _, d := range compare(
		"k", kubelet, show(ours, "", "b", 2, event("Killing", "Stopping"), event("Started", "Container started")),
	) {
		fields = append(fields, d.field)
	}
	want := []string{
		"event Normal Killing spec.containers{app}", "order", "status.containerStatuses[app].restartCount", "status.podIP",
	}
	if !slices.Equal(fields, want) {
		t.Errorf("they differ in %q, want %q", fields, want)
	}
}

func TestReadList(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	write := func(table string) {
		t.Helper()
		if err := os.WriteFile(page, []byte("# Page\n\n"+listHead+"\n|---|\n"+table+
			"\n\n| another | table |\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("| one, two | `event * (x\\|y)` | – | a * c | a reason |")
	list, err := readList(page)
	if err != nil || len(list) != 1 {
		t.Fatalf("read %v, %v", list, err)
	}
	for d, want := range map[difference]bool{
		{"one", "event Normal (x|y)", none, "a b c"}:   true,
		{"two", "event Normal (x|y)", none, "a b c"}:   true,
		{"three", "event Normal (x|y)", none, "a b c"}: false,
		{"one", "event Normal x", none, "a b c"}:       false,
		{"one", "event Normal (x|y)", "x", "a b c"}:    false,
		{"one", "event Normal (x|y)", none, "a b"}:     false,
	} {
		if list[0].covers(d) != want {
			t.Errorf("%v is covered: %t", d, !want)
		}
	}
	write("| one | field | – | value |")
	if _, err := readList(page); err == nil {
		t.Error("a difference without a reason is read")
	}
	if _, err := readList(filepath.Join("..", "..", "..", "README.md")); err == nil {
		t.Error("a page without a table is read")
	}
}

// Each known difference names kinds that there are, and each kind has a name of its own.
func TestListNamesKinds(t *testing.T) {
	known, err := readList(page)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"all"}
	for _, k := range kinds() {
		if slices.Contains(names, k.name) {
			t.Errorf("two kinds are called %q", k.name)
		}
		names = append(names, k.name)
		if k.until == nil || (k.then != nil) != (k.after != nil || k.gone) {
			t.Errorf("kind %q is not whole", k.name)
		}
	}
	for _, l := range known {
		for _, name := range l.kinds {
			if !slices.Contains(names, name) {
				t.Errorf("no kind is called %q: %s", name, l.line)
			}
		}
	}
}

// A seed makes the same choice again; no kind comes twice before each came once; -kinds
// without -pods is one of each.
func TestChoose(t *testing.T) {
	names := func(seed uint64, match string, n int) (names []string) {
		for _, k := range choose(rand.New(rand.NewPCG(seed, 0)), match, n) {
			names = append(names, k.name)
		}
		return names
	}
	first := names(1, "", 0)
	if len(first) != usual || !slices.Equal(first, names(1, "", 0)) || slices.Equal(first, names(2, "", 0)) {
		t.Errorf("%d pods of a seed: %q", len(first), first)
	}
	once := slices.Clone(first)
	slices.Sort(once)
	if len(slices.Compact(once)) != min(usual, len(kinds())) {
		t.Errorf("some kinds come again before others: %q", first)
	}
	if got := names(1, "^(runs|fails)$", 0); len(got) != 2 || got[0] == got[1] {
		t.Errorf("two kinds by name: %q", got)
	}
	if got := names(1, "^runs$", 3); !slices.Equal(got, []string{"runs", "runs", "runs"}) {
		t.Errorf("one kind three times: %q", got)
	}
	if got := names(1, "^no such kind$", 0); len(got) > 0 {
		t.Errorf("%q match nothing", got)
	}
}
