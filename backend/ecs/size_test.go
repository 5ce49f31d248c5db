package ecs

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/burstlet/burstlet/backend"
)

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
		for _, arch := range []string{archX86, archARM} {
			got, err := fit(tc.need, PublishedRates(), arch)
			if err != nil || got != tc.want {
				t.Errorf("%v on %s: got %v, %v, want %v", tc.need, arch, got, err, tc.want)
			}
		}
	}
	for _, need := range []fargateSize{{32769, 1}, {1, 249857}} {
		if got, err := fit(need, PublishedRates(), archX86); err == nil {
			t.Errorf("%v fits in %v", need, got)
		}
	}
}

// Steps of memory grow with the vCPUs, so where memory is dear a size with more
// vCPUs may cost less.
func TestTheCheapestSizeIsNotAlwaysTheSmallest(t *testing.T) {
	dear := Rates{VCPU: 0.0001, GB: 1}
	// 8 vCPUs have 57344 MiB and 61440; 16 have 57344 too, but no less CPU.
	for need, want := range map[fargateSize]fargateSize{
		{256, 30721}:   {8192, 32768},
		{8192, 57345}:  {32768, 61440}, // the same memory as 8 vCPUs have
		{8192, 61441}:  {16384, 65536},
		{4096, 120000}: {16384, 122880},
	} {
		got, err := fit(need, dear, archX86)
		if err != nil || dear.perHour(got, archX86, 0) > dear.perHour(want, archX86, 0) {
			t.Errorf("%v: got %v, %v, dearer than %v", need, got, err, want)
		}
	}
	// With vCPUs for nothing every need takes the least memory of all rows.
	free := Rates{GB: 1}
	for _, row := range fargateSizes {
		for _, other := range fargateSizes {
			if other.cpu < row.cpu {
				continue
			}
			for need := int64(1); need < 122880; need += 1021 {
				got, err := fit(fargateSize{row.cpu, need}, free, archX86)
				if m := leastMemory(other.memory, need); err == nil && m > 0 && m < got.memoryMiB {
					t.Fatalf("%d CPU units and %d MiB: got %v, %d has %d MiB", row.cpu, need, got, other.cpu, m)
				}
			}
		}
	}
}

func TestPrices(t *testing.T) {
	r := PublishedRates()
	for _, tc := range []struct {
		size    fargateSize
		arch    string
		storage int32
		want    float64
	}{
		{fargateSize{1024, 2048}, archX86, 0, 0.04048 + 2*0.004445},
		{fargateSize{256, 512}, archARM, 20, 0.03238/4 + 0.00356/2},
		{fargateSize{1024, 2048}, archX86, 30, 0.04048 + 2*0.004445 + 10*0.000111},
	} {
		if got := r.perHour(tc.size, tc.arch, tc.storage); got < tc.want-1e-9 || got > tc.want+1e-9 {
			t.Errorf("%v on %s: %v, want %v", tc.size, tc.arch, got, tc.want)
		}
	}
}

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
		`{requests: {cpu: 250m, memory: 1}}`: {fargateSize{256, 1}, 0},
		`{requests: {cpu: 1m, memory: 1Mi}}`: {fargateSize{2, 1}, 0},
		`{requests: {cpu: 2, memory: 1Gi}}`:  {fargateSize{2048, 1024}, 0},
		`{requests: {cpu: 1, ephemeral-storage: 1Gi}, limits: {cpu: 2, memory: 100M, ephemeral-storage: 2Gi}}`: {fargateSize{2048, 96}, 2 << 30},
	} {
		if got := amountsOf(parseResources(t, text)); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
	pod := &corev1.PodSpec{}
	for range 10 { // absurd, and too much in the sum
		pod.Containers = append(pod.Containers, corev1.Container{Resources: parseResources(t, `{requests: {cpu: 9e18, memory: 8E, ephemeral-storage: 8E}}`)})
	}
	if got, err := fit(needOf(pod).fargateSize, PublishedRates(), archX86); err == nil {
		t.Errorf("fits in %v", got)
	}
	if g := storageOf(pod, 0); g <= maxStorageGiB {
		t.Errorf("fits in %d GiB", g)
	}
}

func TestNeed(t *testing.T) {
	const cpu1, cpu2, cpu3 = "resources: {requests: {cpu: 1, memory: 1Gi}}", "resources: {requests: {cpu: 2, memory: 2Gi}}", "resources: {requests: {cpu: 3, memory: 3Gi}}"
	for text, want := range map[string]fargateSize{
		"containers: [{name: a, " + cpu1 + "}]":                                                                     {1024, 1024},
		"containers: [{name: a, " + cpu1 + "}, {name: b, " + cpu2 + "}]":                                            {3072, 3072 + anchorMiB},
		"initContainers: [{name: i, " + cpu3 + "}, {name: j, " + cpu2 + "}]\ncontainers: [{name: a, " + cpu1 + "}]": {3072, 3072},
		"initContainers: [{name: s, restartPolicy: Always, " + cpu1 + "}]\ncontainers: [{name: a, " + cpu1 + "}]":   {2048, 2048},
		// A sidecar runs beside the init containers after it, not beside those before.
		"initContainers: [{name: s, restartPolicy: Always, " + cpu1 + "}, {name: i, " + cpu3 + "}]\ncontainers: [{name: a, " + cpu1 + "}]": {4096, 4096},
		"initContainers: [{name: i, " + cpu3 + "}, {name: s, restartPolicy: Always, " + cpu1 + "}]\ncontainers: [{name: a, " + cpu1 + "}]": {3072, 3072},
		"overhead: {cpu: 1, memory: 1Gi}\ncontainers: [{name: a, " + cpu1 + "}]":                                                           {2048, 2048},
		"resources: {limits: {cpu: 4, memory: 8Gi}}\ncontainers: [{name: a, " + cpu1 + "}]":                                                {4096, 8192},
		"resources: {requests: {memory: 4Gi}}\ncontainers: [{name: a, " + cpu1 + "}]":                                                      {1024, 4096},
	} {
		if got := needOf(&parsePod(t, text).Spec).fargateSize; got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}

func TestStorage(t *testing.T) {
	mount := ", volumeMounts: [{name: v, mountPath: /v}]"
	for text, want := range map[string]int32{
		"containers: [{name: a}]": 0,
		"containers: [{name: a, resources: {requests: {ephemeral-storage: 20Gi}}}]":                                                          0,
		"containers: [{name: a, resources: {requests: {ephemeral-storage: 20481Mi}}}]":                                                       21,
		"containers: [{name: a, resources: {limits: {ephemeral-storage: 30Gi}}}, {name: b, resources: {limits: {ephemeral-storage: 30Gi}}}]": 60,
		"initContainers: [{name: i, resources: {limits: {ephemeral-storage: 70Gi}}}]\ncontainers: [{name: b, resources: {}}]":                70,
		"volumes: [{name: v, emptyDir: {sizeLimit: 50Gi}}]\ncontainers: [{name: a" + mount + "}]":                                            50,
		"volumes: [{name: v, emptyDir: {sizeLimit: 50Gi, medium: Memory}}]\ncontainers: [{name: a" + mount + "}]":                            0,
		"volumes: [{name: v, emptyDir: {sizeLimit: 50Gi, medium: Memory}}]\ncontainers: [{name: a" + mount + "}, {name: b" + mount + "}]":    50,
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
	wantClass(t, acceptable(bareConfig, specOf(pod, 0)), "Unsupported")
	wantClass(t, acceptable(bareConfig, backend.LaunchSpec{Pod: podOf("a")}), "Invalid")
}
