package explain

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri"
	"github.com/burstlet/burstlet/backend/ecs"
	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
	"github.com/burstlet/burstlet/backend/sim"
)

var update = flag.Bool("update", false, "write docs/fields.md anew")

const fieldsFile = "../../../docs/fields.md"

const fieldsIntro = `# Fields of a pod, by backend

What becomes of each field of a pod. This page is written by a test from what
the engine and the backends really answer
(` + "`go test ./cmd/burstlet/explain -run TestFieldsPage -update`" + `), and the same test fails when
a field is missing here or when an answer changes.

A field that is refused fails the pod with reason ` + "`UnsupportedByBackend`" + ` and the
words in this table. The simulated backend refuses nothing by itself: it takes
what the engine takes, and no container runs. The ecs column is of a node with
` + "`taskImage`, `logGroup`, `executionRoleARN`, `taskRoleARN` and `ebs.roleARN`" + `; what
needs one of them is refused on a node without it, in words that name it.
` + "`burstlet explain -f pod.yaml`" + ` says what becomes of a pod.

`

// fieldRow is a field with a value, and what becomes of it where it is taken.
type fieldRow struct {
	// field is the path in the pod; a container's begins with "containers[].".
	field string
	// value is what set gives it, for the reader.
	value string
	set   func(*corev1.Pod)
	// cri and ecs say what happens there. Empty: the pod is refused.
	cri, ecs string
}

func ptr[T any](v T) *T { return &v }

type fieldSection struct {
	title string
	rows  []fieldRow
}

func fieldSections() []fieldSection {
	return []fieldSection{
		{"What runs", podRunRows()},
		{"Volumes", volumeRows()},
		{"Where and with what", podPlaceRows()},
		{"The pod's security context", podSecurityRows()},
		{"A container", containerRows()},
		{"A container's environment", environmentRows()},
		{"A container's health and end", containerLifeRows()},
		{"A container's security context", securityRows()},
	}
}

// spec makes a setter of one that changes the spec.
func spec(set func(*corev1.PodSpec)) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { set(&pod.Spec) }
}

// container makes a setter of one that changes the only container.
func container(set func(*corev1.Container)) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { set(&pod.Spec.Containers[0]) }
}

func podSecurity(context corev1.PodSecurityContext) func(*corev1.Pod) {
	return spec(func(s *corev1.PodSpec) { s.SecurityContext = &context })
}

func security(context corev1.SecurityContext) func(*corev1.Pod) {
	return container(func(c *corev1.Container) { c.SecurityContext = &context })
}

// TestFieldsPage compares docs/fields.md with what the backends answer.
func TestFieldsPage(t *testing.T) {
	page := fieldsPage(t)
	if *update {
		if err := os.WriteFile(fieldsFile, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(fieldsFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), page); diff != "" {
		t.Errorf(
			"docs/fields.md is not what the backends answer; go test ./cmd/burstlet/explain -run TestFieldsPage -update "+
				"(-file +answer):\n%s",
			diff,
		)
	}
}

// Claims are waited for on hosts and simulated nodes, as by a kubelet.
func TestTasksAloneMakeVolumesByThemselves(t *testing.T) {
	host, err := cri.New(cri.Config{Endpoint: "unix:///run/containerd/containerd.sock", NodeIdentity: "test"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := ecs.New(t.Context(), ecs.Config{
		Config: ecsconfig.Config{
			Region: "eu-central-1", Cluster: "c", Subnets: []string{"subnet-1"}, NodeIdentity: "test",
			Endpoint: "http://127.0.0.1:1",
		},
		AccessKeyID: "a", SecretAccessKey: "b",
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, made := range map[string]bool{
		"cri": host.Limits.EphemeralVolumes, "sim": sim.New(sim.Config{}).Backend().Limits.EphemeralVolumes,
		"ecs": tasks.Limits.EphemeralVolumes,
	} {
		if made != (name == "ecs") {
			t.Errorf("%s makes volumes by itself: %v", name, made)
		}
	}
}

func fieldsPage(t *testing.T) string {
	t.Helper()
	host, err := cri.New(cri.Config{Endpoint: "unix:///run/containerd/containerd.sock", NodeIdentity: "test"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := ecs.New(t.Context(), ecs.Config{
		Config: ecsconfig.Config{
			Region: "eu-central-1", Cluster: "c", Subnets: []string{"subnet-1"}, NodeIdentity: "test", TaskImage: "i",
			LogGroup:         "/g",
			ExecutionRoleARN: "arn:aws:iam::123456789012:role/e", TaskRoleARN: "arn:aws:iam::123456789012:role/t",
			EBS:      ecsconfig.EBS{RoleARN: "arn:aws:iam::123456789012:role/v"},
			Endpoint: "http://127.0.0.1:1",
		},
		AccessKeyID: "a", SecretAccessKey: "b",
	})
	if err != nil {
		t.Fatal(err)
	}
	simulated := sim.New(sim.Config{}).Backend().Check
	var page strings.Builder
	page.WriteString(fieldsIntro)
	for _, section := range fieldSections() {
		fmt.Fprintf(&page, "## %s\n\n| field | value | cri | ecs |\n|---|---|---|---|\n", section.title)
		for _, row := range section.rows {
			pod := plainPod()
			row.set(pod)
			if refused := simulated.Check(pod); len(refused) > 0 {
				t.Errorf("%s: sim refuses %v", row.field, refused)
			}
			fmt.Fprintf(&page, "| `%s` | %s | %s | %s |\n", row.field, row.value,
				verdict(t, row, *host, pod, row.cri), verdict(t, row, tasks, pod, row.ecs))
		}
		page.WriteString("\n")
	}
	page.WriteString(annotationsIntro)
	for _, a := range taskdef.Annotations() {
		fmt.Fprintf(&page, "| `%s%s` | `%s` | %s |\n", taskdef.Prefix, a.Name, a.Value, a.Meaning)
	}
	return page.String()
}

const annotationsIntro = `## Annotations of a pod on ecs

Each goes before what the node's configuration says. An annotation under the prefix
that is not in this table is refused by name.

| annotation | value | meaning |
|---|---|---|
`

var index = regexp.MustCompile(`\[\d+\]`)

// verdict is a cell: the refusal, or what the row says happens.
func verdict(t *testing.T, row fieldRow, b backend.Backend, pod *corev1.Pod, how string) string {
	t.Helper()
	name := b.Name
	var whys []string
	for _, r := range refusals(b, pod) {
		// A volume that is refused makes its mounts be refused too.
		path := index.ReplaceAllString(r.Field, "[]")
		if !strings.HasPrefix(path, "spec."+row.field) && (row.field != "volumes" ||
			!strings.HasPrefix(path, "spec.containers[].volumeMounts")) {
			t.Errorf("%s: %s refuses %s instead: %s", row.field, name, path, r.Why)
		}
		whys = append(whys, r.Why)
	}
	switch {
	case len(whys) > 0 && how != "":
		t.Errorf("%s: %s refuses what the table says it takes: %s", row.field, name, whys)
	case len(whys) == 0 && how == "":
		t.Errorf("%s: %s takes it; the table must say what happens", row.field, name)
	case len(whys) > 0:
		return "**refused**: " + whys[0]
	}
	if how == fromTable {
		return taskdef.FieldRule(row.field)
	}
	return how
}

// fromTable stands for what the backend's own table says of a field.
const fromTable = "\x00"

// plainPod is a pod that everybody takes.
func plainPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: "u"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example/i:1"}}},
	}
}

// TestFieldsTableIsWhole fails for a field that Kubernetes has and the table
// has not.
func TestFieldsTableIsWhole(t *testing.T) {
	have := map[string]bool{}
	for _, section := range fieldSections() {
		for _, row := range section.rows {
			parts := strings.Split(row.field, ".")
			for i := range parts {
				have[strings.Join(parts[:i+1], ".")] = true
			}
		}
	}
	for prefix, kind := range map[string]reflect.Type{
		"":                              reflect.TypeFor[corev1.PodSpec](),
		"securityContext.":              reflect.TypeFor[corev1.PodSecurityContext](),
		"containers[].":                 reflect.TypeFor[corev1.Container](),
		"containers[].securityContext.": reflect.TypeFor[corev1.SecurityContext](),
	} {
		for i := range kind.NumField() {
			name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
			if path := prefix + name; !have[path] && !have[path+"[]"] {
				t.Errorf("the table lacks %s", path)
			}
		}
	}
}
