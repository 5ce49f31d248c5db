package ecs

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/burstlet/burstlet/backend"
)

var update = flag.Bool("update", false, "write the golden files")

// goldenConfig is one with everything set.
var goldenConfig = Config{
	Region: "eu-central-1", Cluster: "burst", Subnets: []string{"subnet-1", "subnet-2"}, SecurityGroups: []string{"sg-1"}, AssignPublicIP: true,
	ExecutionRoleARN: "arn:aws:iam::123456789012:role/execution", TaskRoleARN: "arn:aws:iam::123456789012:role/task",
	NodeIdentity: "6b1f/burst-1.example", CPUArchitecture: archARM, LogGroup: "/burstlet",
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
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			pod := readPod(t, file)
			if r := Check(pod); len(r) > 0 {
				t.Fatalf("refused: %v", r)
			}
			def, err := definitionOf(goldenConfig, specOf(pod, 3))
			if err != nil {
				t.Fatal(err)
			}
			run, err := runOf(goldenConfig, specOf(pod, 3), *def.Family)
			if err != nil {
				t.Fatal(err)
			}
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
		def, err := definitionOf(goldenConfig, specOf(pod, attempt))
		if err != nil {
			t.Fatal(err)
		}
		return *def.Family
	}
	base := readPod(t, "testdata/full.yaml")
	same := base.DeepCopy()
	same.Name, same.UID, same.Namespace, same.Labels, same.Spec.NodeName = "other", "other", "other", map[string]string{"a": "b"}, "n"
	if family(base, 0) != family(same, 5) {
		t.Error("two pods of one shape have two definitions")
	}
	for name, change := range map[string]func(*corev1.Pod){
		"image":     func(p *corev1.Pod) { p.Spec.Containers[0].Image += "1" },
		"arg":       func(p *corev1.Pod) { p.Spec.Containers[0].Args[1] = "ab" },
		"empty arg": func(p *corev1.Pod) { p.Spec.Containers[0].Args = append(p.Spec.Containers[0].Args, "") },
		"env":       func(p *corev1.Pod) { p.Spec.Containers[0].Env[0].Value = "x" },
		"grace":     func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(3)) },
		"user":      func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsUser = new(int64(3)) },
		"size":      func(p *corev1.Pod) { p.Spec.InitContainers[0].Resources.Limits = nil },
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
	_, err := definitionOf(goldenConfig, specOf(pod, 0))
	wantClass(t, err, "Invalid")
	spec := specOf(podOf("a", "true"), 0)
	spec.Containers[0].Hash = strings.Repeat("h", maxOverrides)
	_, err = runOf(goldenConfig, spec, "f")
	wantClass(t, err, "Invalid")
}

func TestIdentity(t *testing.T) {
	spec := specOf(withInit(podOf("a", "true"), []string{"true"}), 4)
	run, err := runOf(goldenConfig, spec, "f")
	must(t, err)
	got, err := identityIn(taskWith(run.Overrides))
	must(t, err)
	if d := cmp.Diff(identityOf(goldenConfig.NodeIdentity, spec), got); d != "" {
		t.Fatal(d)
	}
	for _, text := range []string{"", "{", "{}", `{"uid":"x"}`, "[]"} {
		*run.Overrides.ContainerOverrides[0].Environment[0].Value = text
		if id, err := identityIn(taskWith(run.Overrides)); err == nil {
			t.Errorf("%q is an identity: %+v", text, id)
		}
	}
	tokens := map[string]bool{clientToken("u", 1, 0): true, clientToken("u", 0, 1): true, clientToken("v", 1, 0): true, clientToken("u", 10, 0): true}
	if len(tokens) != 4 || len(clientToken("u", 1, 0)) > 64 {
		t.Errorf("%v", maps.Keys(tokens))
	}
	a, b := startedBy("c/node.a"), startedBy("c/node_a")
	if a == b || len(startedBy(strings.Repeat("ü", 300))) > 128 || strings.ContainsAny(a, ".:") {
		t.Errorf("%s, %s", a, b)
	}
}

func FuzzIdentity(f *testing.F) {
	f.Add(`{"node":"n","uid":"u","ns":"s","name":"p","attempt":1,"c":[{"n":"app","h":"x"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		run, err := runOf(goldenConfig, specOf(podOf("a", "true"), 0), "f")
		must(t, err)
		run.Overrides.ContainerOverrides[0].Environment[0].Value = &text
		if id, err := identityIn(taskWith(run.Overrides)); err == nil && (id.UID == "" || len(id.Containers) == 0) {
			t.Fatalf("%+v", id)
		}
	})
}

func TestSizes(t *testing.T) {
	for _, tc := range []struct{ need, want fargateSize }{
		{fargateSize{0, 0}, fargateSize{256, 512}},
		{fargateSize{256, 513}, fargateSize{256, 1024}},
		{fargateSize{1, 2049}, fargateSize{512, 3072}},
		{fargateSize{257, 1}, fargateSize{512, 1024}},
		{fargateSize{1024, 8193}, fargateSize{2048, 9216}},
		{fargateSize{4097, 1}, fargateSize{8192, 16384}},
		{fargateSize{8192, 16385}, fargateSize{8192, 20480}},
		{fargateSize{1, 122881}, fargateSize{32768, 249856}},
		{fargateSize{32768, 61441}, fargateSize{32768, 122880}},
	} {
		got, err := fit(tc.need)
		if err != nil || got != tc.want {
			t.Errorf("%v: got %v, %v, want %v", tc.need, got, err, tc.want)
		}
	}
	for _, need := range []fargateSize{{32769, 1}, {1, 249857}} {
		if got, err := fit(need); err == nil {
			t.Errorf("%v fits in %v", need, got)
		}
	}
}

func TestNeed(t *testing.T) {
	res := func(text string) (r corev1.ResourceRequirements) {
		if err := yaml.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	for text, want := range map[string]fargateSize{
		`{}`:                                 {0, 0},
		`{requests: {cpu: 250m, memory: 1}}`: {256, 1},
		`{requests: {cpu: 1m, memory: 1Mi}}`: {2, 1},
		`{requests: {cpu: 2, memory: 1Gi}}`:  {2048, 1024},
		`{requests: {cpu: 1}, limits: {cpu: 2, memory: 100M}}`: {2048, 96},
	} {
		got := needOfContainer(res(text))
		if got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
	pod := &corev1.PodSpec{}
	for range 10 { // absurd, and too much in the sum
		pod.Containers = append(pod.Containers, corev1.Container{Resources: res(`{requests: {cpu: 9e18, memory: 8E}}`)})
	}
	if got, err := fit(needOf(pod)); err == nil {
		t.Errorf("fits in %v", got)
	}
}

func TestLaunchRefusesWhatCheckRefuses(t *testing.T) {
	pod := podOf("a", "true")
	pod.Spec.HostNetwork = true
	wantClass(t, acceptable(specOf(pod, 0)), "Unsupported")
	wantClass(t, acceptable(backend.LaunchSpec{Pod: podOf("a")}), "Invalid")
}
