package taskdef

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/fargate"
)

func size(cpu, mib int64) fargate.Size { return fargate.Size{CPU: cpu, MemoryMiB: mib} }

func parseResources(t *testing.T, text string) (r corev1.ResourceRequirements) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAmounts(t *testing.T) {
	for text, want := range map[string]amounts{
		`{}`:                                 {},
		`{requests: {cpu: 250m, memory: 1}}`: {size(256, 1), 0},
		`{requests: {cpu: 1m, memory: 1Mi}}`: {size(2, 1), 0},
		`{requests: {cpu: 2, memory: 1Gi}}`:  {size(2048, 1024), 0},
		`{requests: {cpu: 1, ephemeral-storage: 1Gi}, limits: {cpu: 2, memory: 100M, ephemeral-storage: 2Gi}}`: {size(2048, 96), 2 << 30},
	} {
		if got := amountsOf(parseResources(t, text)); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
	pod := &corev1.PodSpec{}
	for range 10 { // absurd, and too much in the sum
		pod.Containers = append(pod.Containers, corev1.Container{Resources: parseResources(
			t, `{requests: {cpu: 9e18, memory: 8E, ephemeral-storage: 8E}}`,
		)})
	}
	rates := fargate.PublishedRates(fargate.PricesRegion)
	if got, err := fargate.Fit(needOf(pod, 0).Size, rates, fargate.X86); err == nil {
		t.Errorf("fits in %v", got)
	}
	if g := storageOf(pod, 0); g <= fargate.MaxStorageGiB {
		t.Errorf("fits in %d GiB", g)
	}
}

func TestNeed(t *testing.T) {
	const cpu1, cpu2, cpu3 = "resources: {requests: {cpu: 1, memory: 1Gi}}", "resources: {requests: {cpu: 2, memory: " +
		"2Gi}}", "resources: {requests: {cpu: 3, memory: 3Gi}}"
	for text, want := range map[string]fargate.Size{
		"containers: [{name: a, " + cpu1 +
			"}]": size(1024, 1024),
		"containers: [{name: a, " + cpu1 + "}, {name: b, " + cpu2 +
			"}]": size(3072, 3072+anchorMiB),
		"initContainers: [{name: i, " + cpu3 + "}, {name: j, " + cpu2 + "}]\ncontainers: [{name: a, " + cpu1 +
			"}]": size(3072, 3072),
		"initContainers: [{name: s, restartPolicy: Always, " + cpu1 + "}]\ncontainers: [{name: a, " + cpu1 +
			"}]": size(2048, 2048),
		// A sidecar runs beside the init containers after it, not beside those before.
		"initContainers: [{name: s, restartPolicy: Always, " + cpu1 + "}, {name: i, " + cpu3 + "}]\ncontainers: [{name: a, " +
			cpu1 + "}]": size(4096, 4096),
		"initContainers: [{name: i, " + cpu3 + "}, {name: s, restartPolicy: Always, " + cpu1 + "}]\ncontainers: [{name: a, " +
			cpu1 + "}]": size(3072, 3072),
		"overhead: {cpu: 1, memory: 1Gi}\ncontainers: [{name: a, " + cpu1 + "}]":            size(2048, 2048),
		"resources: {limits: {cpu: 4, memory: 8Gi}}\ncontainers: [{name: a, " + cpu1 + "}]": size(4096, 8192),
		"resources: {requests: {memory: 4Gi}}\ncontainers: [{name: a, " + cpu1 + "}]":       size(1024, 4096),
	} {
		if got := needOf(&parsePod(t, text).Spec, 0).Size; got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}

func TestStorage(t *testing.T) {
	mount := ", volumeMounts: [{name: v, mountPath: /v}]"
	for text, want := range map[string]int32{
		"containers: [{name: a}]": 0,
		"containers: [{name: a, resources: {requests: {ephemeral-storage: 20Gi}}}]":    0,
		"containers: [{name: a, resources: {requests: {ephemeral-storage: 20481Mi}}}]": 21,
		"containers: [{name: a, resources: {limits: {ephemeral-storage: 30Gi}}}, {name: b, resources: {limits: " +
			"{ephemeral-storage: 30Gi}}}]": 60,
		"initContainers: [{name: i, resources: {limits: {ephemeral-storage: 70Gi}}}]\ncontainers: [{name: b, resources: {}}]": 70,
		"volumes: [{name: v, emptyDir: {sizeLimit: 50Gi}}]\ncontainers: [{name: a" + mount +
			"}]": 50,
		"volumes: [{name: v, emptyDir: {sizeLimit: 50Gi, medium: Memory}}]\ncontainers: [{name: a" + mount +
			"}]": 0,
		"volumes: [{name: v, emptyDir: {sizeLimit: 50Gi, medium: Memory}}]\ncontainers: [{name: a" + mount + "}, {name: b" +
			mount + "}]": 50,
	} {
		if got := storageOf(&parsePod(t, text).Spec, 0); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
	if got := storageOf(&corev1.PodSpec{}, 40); got != 40 {
		t.Errorf("of the node: %d", got)
	}
}

func TestLaunchRefusesWhatCheckRefuses(t *testing.T) {
	pod := podOf("a", "true")
	pod.Spec.HostNetwork = true
	wantClass(t, Acceptable(bareConfig, specOf(pod, 0)), "Unsupported")
	wantClass(t, Acceptable(bareConfig, backend.LaunchSpec{Pod: podOf("a")}), "Invalid")
}
