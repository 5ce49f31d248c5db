package taskdef

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	corev1 "k8s.io/api/core/v1"
	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

func testdata(t *testing.T) map[string]*corev1.Pod {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	pods := map[string]*corev1.Pod{}
	for _, file := range files {
		pods[filepath.Base(file)] = readPod(t, file)
	}
	return pods
}

func translated(
	t *testing.T, pod *corev1.Pod, attempt int,
) (*awsecs.RegisterTaskDefinitionInput, *awsecs.RunTaskInput) {
	t.Helper()
	spec := resolved(pod, attempt)
	def, err := definitionOf(fullConfig, spec, refsOf(spec), imagesFor(spec))
	must(t, err)
	run, err := runOf(fullConfig, spec, refsOf(spec), imagesFor(spec), *def.Family)
	must(t, err)
	return def, run
}

// Two pods of one template differ in name, UID, labels of their own and node, and
// in all that is made of those.
func TestTwoPodsOfOneTemplateHaveOneDefinition(t *testing.T) {
	for name, pod := range testdata(t) {
		other := pod.DeepCopy()
		other.Name, other.UID, other.Spec.NodeName = "another-pod", ktypes.UID(
			"99999999-bbbb-cccc-dddd-eeeeeeeeeeee",
		), "elsewhere"
		other.Labels = map[string]string{"pod": "another"}
		renameVolume(other, "kube-api-access", "kube-api-access-x2x4z")
		a, runA := translated(t, pod, 0)
		b, runB := translated(t, other, 7)
		if string(pretty(t, a)) != string(pretty(t, b)) {
			t.Errorf("%s: two definitions", name)
		}
		if *runA.ClientToken == *runB.ClientToken {
			t.Errorf("%s: one client token", name)
		}
		text := string(pretty(t, a))
		for _, own := range []string{pod.Name, string(pod.UID), "another-pod"} {
			if strings.Contains(text, `"`+own) || strings.Contains(text, "="+own) {
				t.Errorf("%s: %s stands in the definition", name, own)
			}
		}
	}
}

// renameVolume gives a volume another name, as admission makes one up for each pod.
func renameVolume(pod *corev1.Pod, from, to string) {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == from {
			pod.Spec.Volumes[i].Name = to
		}
	}
	for i := range pod.Spec.Containers {
		for j := range pod.Spec.Containers[i].VolumeMounts {
			if m := &pod.Spec.Containers[i].VolumeMounts[j]; m.Name == from {
				m.Name = to
			}
		}
	}
}

func TestNoValueOfASecretIsInARequest(t *testing.T) {
	for name, pod := range testdata(t) {
		def, run := translated(t, pod, 0)
		if text := string(pretty(t, def)) + string(pretty(t, run)); strings.Contains(text, canary) {
			t.Errorf("%s: the canary is in a request", name)
		}
	}
	spec := resolved(testdata(t)["deployment.yaml"], 0)
	values := SecretEnv(spec)
	want := map[string]string{
		"web.DB_key": canary + "/database", "web.URL": "https://web:" + canary + "/database@db",
		"web.x-6f64643a6e616d65": canary + "/token",
	}
	if fmt.Sprint(values) != fmt.Sprint(want) {
		t.Errorf("secret values: %v, want %v", values, want)
	}
}

func TestRequestsAreTheSameEachTime(t *testing.T) {
	for name, pod := range testdata(t) {
		a, runA := translated(t, pod, 2)
		for range 5 {
			b, runB := translated(t, pod.DeepCopy(), 2)
			if string(pretty(t, a))+string(pretty(t, runA)) != string(pretty(t, b))+string(pretty(t, runB)) {
				t.Errorf("%s: differs from call to call", name)
			}
		}
	}
}

// What nobody resolved, and what can stand nowhere, is refused at the launch too.
func TestLaunchesThatCannotBe(t *testing.T) {
	secretRef := corev1.EnvVar{
		Name: "A", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "k"}},
	}
	for name, tc := range map[string]struct {
		change func(*backend.LaunchSpec)
		class  string
	}{
		"a variable of unknown origin": {func(s *backend.LaunchSpec) {
			s.Pod.Spec.Containers[0].Env = []corev1.EnvVar{secretRef}
			s.Containers[0].Container.Env = []corev1.EnvVar{{Name: "A", Value: canary}}
		}, "Invalid"},
		"one from a whole Secret": {func(s *backend.LaunchSpec) {
			s.Pod.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{}}}
			s.Containers[0].Container.Env = []corev1.EnvVar{{Name: "A", Value: canary}}
		}, "Invalid"},
		"a variable of both": {func(s *backend.LaunchSpec) {
			s.Containers[0].Container.Env = []corev1.EnvVar{{Name: "A", Value: canary}}
			s.Containers[0].Origins.Env = map[string]backend.Origin{"A": backend.OriginPod | backend.OriginSecret}
		}, "Unsupported"},
		"a secret word": {func(s *backend.LaunchSpec) {
			s.Containers[0].Origins.Args = []backend.Origin{backend.OriginShared, backend.OriginSecret}
		}, "Unsupported"},
		"a volume that is not resolved": {func(s *backend.LaunchSpec) {
			s.Containers[0].Container.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
		}, "Invalid"},
		"a claim on another kind of volume": {func(s *backend.LaunchSpec) {
			s.Volumes = []backend.VolumeSpec{{
				Pod: s.Pod, Name: "v", Source: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}},
			}}
		}, "Unsupported"},
		"a handle that is none": {func(s *backend.LaunchSpec) {
			s.Volumes = []backend.VolumeSpec{{
				Pod: s.Pod, Name: "v", Handle: "x", Source: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: efsDriver}},
			}}
		}, "Unsupported"},
		"an unknown annotation": {
			func(s *backend.LaunchSpec) { s.Pod.Annotations = map[string]string{Prefix + "x": "y"} }, "Unsupported",
		},
		"a definition beyond 64 KiB": {func(s *backend.LaunchSpec) {
			s.Containers[0].Container.Args = []string{strings.Repeat("x", maxDefinition)}
		}, "Invalid"},
		"overrides beyond 8192 characters": {func(s *backend.LaunchSpec) {
			s.Containers[0].Container.Args = []string{strings.Repeat("x", maxOverrides)}
			s.Containers[0].Origins.Args = []backend.Origin{backend.OriginPod}
		}, "Invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf("a", "run")
			spec := specOf(pod, 0)
			tc.change(&spec)
			err := Preflight(fullConfig, spec, imagesFor(spec))
			wantClass(t, err, tc.class)
			if strings.Contains(err.Error(), canary) {
				t.Errorf("the error tells a secret: %v", err)
			}
		})
	}
}

func TestPreflightTakesWhatWillBeTaken(t *testing.T) {
	for name, pod := range testdata(t) {
		if err := Preflight(fullConfig, resolved(pod, 0), imagesFor(resolved(pod, 0))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOrderOfContainers(t *testing.T) {
	def, _ := translated(t, testdata(t)["several.yaml"], 0)
	got := map[string][]string{}
	for _, c := range def.ContainerDefinitions {
		line := []string{fmt.Sprint(aws.ToBool(c.Essential))}
		for _, d := range c.DependsOn {
			line = append(line, *d.ContainerName+" "+string(d.Condition))
		}
		got[*c.Name] = line
	}
	apps := []string{"false", "second SUCCESS", "proxy HEALTHY", "collector START"}
	for name, want := range map[string][]string{
		"burstlet-init": {"false"}, "first": {"false", "burstlet-init SUCCESS"},
		"proxy": {"false", "first SUCCESS"}, "collector": {"false", "first SUCCESS", "proxy HEALTHY"},
		"second": {"false", "first SUCCESS", "proxy HEALTHY", "collector START"},
		"left":   apps, "right": apps, "burstlet-agent": append([]string{"true"}, apps[1:]...),
	} {
		if !slices.Equal(got[name], want) {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
}

// Check counts the containers that the translation adds.
func TestCheckCountsOwnContainers(t *testing.T) {
	for name, pod := range testdata(t) {
		def, _ := translated(t, pod, 0)
		own := (&checking{cfg: fullConfig, pod: pod}).ownContainers()
		if want := len(pod.Spec.InitContainers) + len(pod.Spec.Containers) + own; len(def.ContainerDefinitions) != want {
			t.Errorf("%s: %d containers, Check counts %d", name, len(def.ContainerDefinitions), want)
		}
	}
}

func TestPlaceOfARequest(t *testing.T) {
	_, run := translated(t, testdata(t)["deployment.yaml"], 0)
	if len(run.CapacityProviderStrategy) != 1 || *run.CapacityProviderStrategy[0].CapacityProvider != "FARGATE_SPOT" ||
		run.LaunchType != "" {
		t.Errorf("spot first: %v, %s", run.CapacityProviderStrategy, run.LaunchType)
	}
	_, run = translated(t, testdata(t)["minimal.yaml"], 0)
	if run.LaunchType != types.LaunchTypeFargate || run.CapacityProviderStrategy != nil {
		t.Errorf("on demand: %v, %s", run.CapacityProviderStrategy, run.LaunchType)
	}
}

func TestPullLogins(t *testing.T) {
	for image, want := range map[string]string{
		"registry.example/a:1": "first", "123456789012.dkr.ecr.eu-central-1.amazonaws.com/a:1": "",
	} {
		spec := specOf(podOf("a", "true"), 0)
		spec.Containers[0].Container.Image = image
		spec.Containers[0].Credentials = []backend.Credential{
			{IdentityToken: "t"}, {Username: "first", Password: "p"}, {Username: "second", Password: "p"},
		}
		if got := PullLogins(spec)["app"].Username; got != want {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
	}
}
