package taskdef

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/burstlet/burstlet/backend/ecs/fargate"
	"github.com/burstlet/burstlet/backend/ecs/identity"
)

func taskWith(o *types.TaskOverride) types.Task { return types.Task{Overrides: o} }

var update = flag.Bool("update", false, "write the golden files")

// goldenConfig is one with everything set.
var goldenConfig = Config{
	Region: "eu-central-1", Cluster: "burst", Subnets: []string{"subnet-1", "subnet-2"}, SecurityGroups: []string{"sg-1"},
	AssignPublicIP:   true,
	ExecutionRoleARN: "arn:aws:iam::123456789012:role/execution", TaskRoleARN: "arn:aws:iam::123456789012:role/task",
	NodeIdentity: "6b1f/burst-1.example", CPUArchitecture: fargate.ARM, LogGroup: "/burstlet",
}

func readPod(t *testing.T, file string) *corev1.Pod {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(b, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestTranslationGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	goldens, err := filepath.Glob("testdata/*.golden.json")
	must(t, err)
	for _, golden := range goldens {
		if !slices.Contains(files, strings.TrimSuffix(golden, ".golden.json")+".yaml") {
			t.Errorf("%s is of no pod any more: remove it", golden)
		}
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			pod := readPod(t, file)
			if r := Checker(fullConfig).Check(pod); len(r) > 0 {
				t.Fatalf("refused: %v", r)
			}
			spec := resolved(pod, 3)
			def, err := definitionOf(fullConfig, spec, refsOf(spec), imagesFor(spec))
			must(t, err)
			run, err := runOf(fullConfig, spec, refsOf(spec), imagesFor(spec), *def.Family)
			must(t, err)
			got := pretty(t, map[string]any{"RegisterTaskDefinition": def, "RunTask": run})
			golden := strings.TrimSuffix(file, ".yaml") + ".golden.json"
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), string(got)); d != "" {
				t.Fatalf("run with -update if it should be so (-want +got):\n%s", d)
			}
		})
	}
}

func pretty(t *testing.T, v any) []byte {
	t.Helper()
	b, err := normal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		t.Fatal(err)
	}
	return append(out.Bytes(), '\n')
}

// What differs between pods of one shape is not in the definition; what is their
// shape is.
func TestFamily(t *testing.T) {
	family := func(pod *corev1.Pod, attempt int) string {
		def, err := definitionOf(goldenConfig, specOf(pod, attempt), Refs{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return *def.Family
	}
	base := readPod(t, "testdata/full.yaml")
	same := base.DeepCopy()
	same.Name, same.UID, same.Namespace, same.Spec.NodeName = "other", "other", "other", "n"
	same.Labels = map[string]string{"a": "b"}
	// of RunTask alone
	same.Annotations = map[string]string{Prefix + "capacity-type": "spot", Prefix + "subnets": "subnet-9"}
	if family(base, 0) != family(same, 5) {
		t.Error("two pods of one shape have two definitions")
	}
	if !strings.HasPrefix(family(base, 0), identity.FamilyPrefix(goldenConfig.NodeIdentity)) {
		t.Error(family(base, 0))
	}
	for name, change := range map[string]func(*corev1.Pod){
		"image":     func(p *corev1.Pod) { p.Spec.Containers[0].Image += "1" },
		"arg":       func(p *corev1.Pod) { p.Spec.Containers[0].Args[1] = "ab" },
		"empty arg": func(p *corev1.Pod) { p.Spec.Containers[0].Args = append(p.Spec.Containers[0].Args, "") },
		"env":       func(p *corev1.Pod) { p.Spec.Containers[0].Env[0].Value = "x" },
		"grace":     func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(3)) },
		"user":      func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsUser = new(int64(3)) },
		"size":      func(p *corev1.Pod) { p.Spec.InitContainers[0].Resources.Limits = nil },
		"role": func(p *corev1.Pod) {
			p.Annotations = map[string]string{Prefix + "task-role-arn": "arn:aws:iam::123456789012:role/x"}
		},
		"arch": func(p *corev1.Pod) { p.Annotations = map[string]string{Prefix + "architecture": "amd64"} },
	} {
		changed := base.DeepCopy()
		change(changed)
		if family(base, 0) == family(changed, 0) {
			t.Errorf("%s: two shapes have one definition", name)
		}
	}
}

func TestRequestsAreBounded(t *testing.T) {
	pod := podOf("a", strings.Repeat("x", maxDefinition))
	_, err := definitionOf(goldenConfig, specOf(pod, 0), Refs{}, nil)
	wantClass(t, err, "Invalid")
	spec := specOf(podOf("a", "true"), 0)
	spec.Containers[0].Hash = strings.Repeat("h", maxOverrides)
	_, err = runOf(goldenConfig, spec, Refs{}, nil, "f")
	wantClass(t, err, "Invalid")
}

func TestIdentity(t *testing.T) {
	spec := specOf(withInit(podOf("a", "true"), []string{"true"}), 4)
	run, err := runOf(goldenConfig, spec, Refs{}, nil, "f")
	must(t, err)
	got, err := identity.Read(taskWith(run.Overrides))
	must(t, err)
	if d := cmp.Diff(identityOf(goldenConfig, spec), got); d != "" {
		t.Fatal(d)
	}
	for _, text := range []string{"", "{", "{}", `{"uid":"x"}`, "[]"} {
		*run.Overrides.ContainerOverrides[1].Environment[0].Value = text
		if id, err := identity.Read(taskWith(run.Overrides)); err == nil {
			t.Errorf("%q is an identity: %+v", text, id)
		}
	}
	tokens := map[string]bool{
		identity.ClientToken("u", 1, 0): true, identity.ClientToken("u", 0, 1): true, identity.ClientToken("v", 1, 0): true,
		identity.ClientToken("u", 10, 0): true,
	}
	if len(tokens) != 4 || len(identity.ClientToken("u", 1, 0)) > 64 {
		t.Errorf("%v", maps.Keys(tokens))
	}
	a, b := identity.StartedBy("c/node.a"), identity.StartedBy("c/node_a")
	if a == b || len(identity.StartedBy(strings.Repeat("ü", 300))) > 128 || strings.ContainsAny(a, ".:") {
		t.Errorf("%s, %s", a, b)
	}
}

func FuzzIdentity(f *testing.F) {
	f.Add(`{"node":"n","uid":"u","ns":"s","name":"p","attempt":1,"c":[{"n":"app","h":"x"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		run, err := runOf(goldenConfig, specOf(podOf("a", "true"), 0), Refs{}, nil, "f")
		must(t, err)
		run.Overrides.ContainerOverrides[0].Environment[0].Value = &text
		if id, err := identity.Read(taskWith(run.Overrides)); err == nil && (id.UID == "" || len(id.Containers) == 0) {
			t.Fatalf("%+v", id)
		}
	})
}

// A container whose output goes elsewhere has no report that could be read.
func TestOnlyAContainerWithALogOwesAReport(t *testing.T) {
	cfg := goldenConfig
	cfg.TaskImage = "burstlet-task:1"
	for driver, want := range map[string]bool{"awslogs": true, "none": false} {
		pod := podOf("p", "true")
		pod.Annotations = map[string]string{Prefix + "log-driver": driver}
		run, err := runOf(cfg, specOf(pod, 0), Refs{}, nil, "f")
		must(t, err)
		id, err := identity.Read(taskWith(run.Overrides))
		must(t, err)
		if id.Containers[0].Supervised != want {
			t.Errorf("%s: %+v", driver, id.Containers)
		}
	}
}
