package taskdef

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func limited(pod *corev1.Pod, memory string) *corev1.Pod {
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
	}
	return pod
}

// The agents of ECS Exec take nothing of what a pod asked for: each container has more by
// what its own takes, and the task by all of them.
func TestExecsMemoryIsCounted(t *testing.T) {
	off := func(p *corev1.Pod) { p.Annotations = map[string]string{Prefix + "exec": "false"} }
	on := func(p *corev1.Pod) { p.Annotations = map[string]string{Prefix + "exec": "true"} }
	nodeOff := func(c *Config) { c.NoExec = true }
	for name, tt := range map[string]struct {
		node    func(*Config)
		pod     func(*corev1.Pod)
		memory  string // of the container, below
		own     int32
		task    string
		execMiB int64
	}{
		"on":                        {memory: "32Mi", own: 72, task: "512", execMiB: 80},
		"off by the pod":            {pod: off, memory: "32Mi", own: 32, task: "512"},
		"off by the node":           {node: nodeOff, memory: "32Mi", own: 32, task: "512"},
		"off by the node, not here": {node: nodeOff, pod: on, memory: "32Mi", own: 72, task: "512", execMiB: 80},
		"without a role":            {node: func(c *Config) { c.TaskRoleARN = "" }, memory: "32Mi", own: 32, task: "512"},
		"without our image":         {node: func(c *Config) { c.TaskImage = "" }, memory: "32Mi", own: 32, task: "512"},
		"the next size":             {memory: "512Mi", own: 552, task: "1024", execMiB: 80},
		"the same size without":     {pod: off, memory: "512Mi", task: "512"},
		"a sidecar has one too": {pod: func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "i", Command: []string{"true"}}, {
				Name: "side", Image: "i", Command: []string{"run"}, RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
			}}
		}, memory: "400Mi", own: 440, task: "1024", execMiB: 120},
		"of the pod as a whole": {pod: func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
			}
		}, memory: "32Mi", own: 72, task: "1024", execMiB: 80},
	} {
		cfg, pod := fullConfig, limited(podOf("web", "run"), tt.memory)
		if tt.node != nil {
			tt.node(&cfg)
		}
		if tt.pod != nil {
			tt.pod(pod)
		}
		def, run, err := Translate(cfg, resolved(pod, 0), Refs{}, nil)
		must(t, err)
		i := slices.IndexFunc(def.ContainerDefinitions, func(c types.ContainerDefinition) bool { return *c.Name == "app" })
		if got := aws.ToInt32(def.ContainerDefinitions[i].Memory); got != tt.own || *def.Memory != tt.task {
			t.Errorf("%s: the container has %d MiB, want %d; the task %s, want %s", name, got, tt.own, *def.Memory, tt.task)
		}
		told, err := Explain(cfg, resolved(pod, 0))
		must(t, err)
		if run.EnableExecuteCommand != (tt.execMiB > 0) || told.ExecMiB != tt.execMiB {
			t.Errorf("%s: exec is %t, and takes %d MiB, want %d", name, run.EnableExecuteCommand, told.ExecMiB, tt.execMiB)
		}
	}
}

func TestWhatExecTakesMayBeTooMuch(t *testing.T) {
	pod := limited(podOf("web", "run"), "244Gi")
	refused := Checker(fullConfig).Check(pod)
	if len(refused) != 1 || !strings.Contains(refused[0].Why, "the annotation "+Prefix+"exec") {
		t.Errorf("%v", refused)
	}
	pod.Annotations = map[string]string{Prefix + "exec": "false"}
	if refused := Checker(fullConfig).Check(pod); len(refused) > 0 {
		t.Errorf("without: %v", refused)
	}
	pod.Annotations[Prefix+"exec"] = "perhaps"
	if refused := Checker(fullConfig).Check(pod); len(refused) == 0 {
		t.Error("exec: perhaps is taken")
	}
}
