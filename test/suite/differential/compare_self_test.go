package differential

import (
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
