package taskdef

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
	"github.com/burstlet/burstlet/backend/ecs/fargate"
)

func annotated(name, value string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{Prefix + name: value}}}
}

func TestAnnotations(t *testing.T) {
	for _, tc := range []struct {
		name, value string
		ok          bool
	}{
		{"capacity-type", "spot", true},
		{"capacity-type", "on-demand,spot", true},
		{"capacity-type", "spot,spot", false},
		{"capacity-type", "", false},
		{"capacity-type", "SPOT", false},
		{"subnets", "subnet-1,subnet-2", true},
		{"subnets", "subnet-1, subnet-2", false},
		{"subnets", "vpc-1", false},
		{"subnets", strings.TrimSuffix(strings.Repeat("subnet-1,", 17), ","), false},
		{"security-groups", "sg-1", true},
		{"security-groups", "sg-1,sg-2,sg-3,sg-4,sg-5,sg-6", false},
		{"assign-public-ip", "true", true},
		{"assign-public-ip", "yes", false},
		{"architecture", "arm64", true},
		{"architecture", "riscv64", false},
		{"execution-role-arn", "arn:aws:iam::123456789012:role/a", true},
		{"task-role-arn", "role/a", false},
		{"platform-version", "LATEST", true},
		{"platform-version", "1.4.0", true},
		{"platform-version", "1.3.0", false},
		{"ephemeral-storage", "21Gi", true},
		{"ephemeral-storage", "201Gi", false},
		{"ephemeral-storage", "-1", false},
		{"log-driver", "none", true},
		{"log-driver", "splunk", true},
		{"log-driver", "awsfirelens", false},
		{"log-options", `{"mode":"blocking"}`, true},
		{"log-options", `mode=blocking`, false},
		{"log-options", `{"awslogs-group":"x"}`, false},
		{"log-options", `{"splunk-token":"x"}`, false},
		{"log-secret-options", `{"splunk-token":"arn"}`, true},
		{"ulimits", "nofile=1024", true},
		{"ulimits", "nofile=1024:2048,core=-1", true},
		{"ulimits", "nofile=2048:1024", false},
		{"ulimits", "nofile=-1:1024", false},
		{"ulimits", "files=1", false},
		{"ulimits", "nofile=1,nofile=2", false},
		{"ulimits", "nofile=x", false},
		{"init-process", "true", true},
		{"clamp-grace", "false", true},
		{"unenforced", "fsGroup", true},
		{"unenforced", "privileged", false},
		{"subnet", "subnet-1", false},
		{"", "", false},
	} {
		_, refused := settingsOf(goldenConfig, annotated(tc.name, tc.value))
		if (len(refused) == 0) != tc.ok {
			t.Errorf("%s: %q: %v", tc.name, tc.value, refused)
		}
		for _, r := range refused {
			if r.Field != "metadata.annotations["+Prefix+tc.name+"]" || r.Why == "" {
				t.Errorf("%s: %q: %+v", tc.name, tc.value, r)
			}
		}
	}
}

// Every annotation that is documented takes what its example shows.
func TestExamplesOfAnnotationsAreTaken(t *testing.T) {
	for _, a := range Annotations() {
		if _, refused := settingsOf(goldenConfig, annotated(a.Name, a.Value)); len(refused) > 0 || a.Meaning == "" {
			t.Errorf("%s: %q: %v", a.Name, a.Value, refused)
		}
	}
}

func TestLabelsAndSelectors(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{Prefix + "capacity-type": "spot"}}}
	pod.Spec.NodeSelector = map[string]string{"kubernetes.io/arch": "amd64"}
	set, refused := settingsOf(goldenConfig, pod)
	if len(refused) > 0 || !cmp.Equal(set.capacity, []string{ecsconfig.CapacitySpot}) || set.arch != fargate.X86 {
		t.Errorf("%+v, %v", set, refused)
	}
	pod.Annotations = map[string]string{Prefix + "capacity-type": "on-demand", Prefix + "architecture": "arm64"}
	if set, refused = settingsOf(goldenConfig, pod); len(refused) > 0 ||
		!cmp.Equal(set.capacity, []string{ecsconfig.CapacityOnDemand}) || set.arch != fargate.ARM {
		t.Errorf("an annotation goes before: %+v, %v", set, refused)
	}
	pod.Labels = map[string]string{Prefix + "subnets": "subnet-1"}
	if _, refused = settingsOf(goldenConfig, pod); len(refused) != 1 ||
		refused[0].Field != "metadata.labels["+Prefix+"subnets]" {
		t.Errorf("a label that is none: %v", refused)
	}
	pod = &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{"kubernetes.io/arch": "s390x"}}}
	if _, refused = settingsOf(goldenConfig, pod); len(refused) != 1 ||
		refused[0].Field != "spec.nodeSelector[kubernetes.io/arch]" {
		t.Errorf("an architecture that Fargate has not: %v", refused)
	}
}

func TestLogging(t *testing.T) {
	base := map[string]string{
		"awslogs-group": "/burstlet", "awslogs-region": "eu-central-1", "awslogs-stream-prefix": "burstlet",
		"mode": "non-blocking", "max-buffer-size": "25m",
	}
	with := func(more ...string) map[string]string {
		out := map[string]string{}
		for k, v := range base {
			out[k] = v
		}
		for i := 0; i < len(more); i += 2 {
			if out[more[i]] = more[i+1]; more[i+1] == "" {
				delete(out, more[i])
			}
		}
		return out
	}
	node := goldenConfig
	node.LogOptions = map[string]string{"max-buffer-size": "1m"}
	for _, tc := range []struct {
		cfg         Config
		name, value string
		driver      string
		want        map[string]string
	}{
		{goldenConfig, "init-process", "true", "awslogs", base},
		{node, "init-process", "true", "awslogs", with("max-buffer-size", "1m")},
		{goldenConfig, "log-options", `{"mode":"blocking"}`, "awslogs", with("mode", "blocking", "max-buffer-size", "")},
		{goldenConfig, "log-driver", "none", "", nil},
		{node, "log-driver", "splunk", "splunk", map[string]string{}},
	} {
		set, refused := settingsOf(tc.cfg, annotated(tc.name, tc.value))
		if len(refused) > 0 {
			t.Error(refused)
		}
		got := logging(tc.cfg, set.log)
		if tc.driver == "" {
			if got != nil {
				t.Errorf("%s=%s: %+v", tc.name, tc.value, got)
			}
			continue
		}
		if string(got.LogDriver) != tc.driver || !cmp.Equal(got.Options, tc.want) {
			t.Errorf("%s=%s: %s %v, want %v", tc.name, tc.value, got.LogDriver, got.Options, tc.want)
		}
	}
}

func FuzzAnnotations(f *testing.F) {
	for _, a := range Annotations() {
		f.Add(a.Name, a.Value)
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		set, refused := settingsOf(goldenConfig, annotated(name, value))
		if len(refused) == 0 &&
			(len(set.subnets) == 0 || len(set.capacity) == 0 || set.storageGiB > fargate.MaxStorageGiB || set.arch == "") {
			t.Fatalf("%s=%q: %+v", name, value, set)
		}
	})
}
