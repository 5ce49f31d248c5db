package chart

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/test/parts/binaries"
)

// namespace is that of the rendered releases, and their name.
const namespace = "burstlet"

// sets are the names of the files with values.
func sets(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "values", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no values: %v", err)
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(filepath.Base(file), ".yaml")
	}
	return files
}

// withNotes are those whose notes differ.
var withNotes = []string{"ssh", "two", "everything"}

func goldenFile(name string) string { return filepath.Join("testdata", "golden", name) }

func valuesFile(set string) string { return filepath.Join("testdata", "values", set+".yaml") }

// rendered is what the chart makes of a set. TestRendered holds it to what Helm says.
func rendered(t *testing.T, set string) []manifest {
	t.Helper()
	data, err := os.ReadFile(goldenFile(set + ".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return manifests(t, string(data))
}

// template renders a set as a release burstlet.
func template(t *testing.T, set string, args ...string) string {
	t.Helper()
	out, problems, err := helm(
		t,
		append([]string{"template", namespace, chartDir, "--namespace", namespace, "--values", valuesFile(set)}, args...)...,
	)
	if err != nil {
		t.Fatalf("%v\n%s", err, problems)
	}
	return out
}

// TestRendered: each set of values makes the manifests of its golden file.
func TestRendered(t *testing.T) {
	t.Parallel()
	var made []string
	for _, set := range sets(t) {
		made = append(made, goldenFile(set+".yaml"))
	}
	for _, set := range withNotes {
		made = append(made, goldenFile(set+".txt"))
	}
	only(t, filesBelow(t, goldenFile("")), made)
	for _, set := range sets(t) {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			golden(t, goldenFile(set+".yaml"), []byte(template(t, set)))
		})
	}
}

// TestClusterVersions: the chart takes clusters of the versions that are tested and newer
// ones, also as EKS and GKE call them, and no older ones. Their nodes are limited by
// constrained impersonation where there is one.
func TestClusterVersions(t *testing.T) {
	t.Parallel()
	var oldest string
	for minor := range binaries.OtherKubernetes() {
		if oldest == "" || minor < oldest {
			oldest = minor
		}
	}
	for version, constrained := range map[string]bool{
		oldest + ".0": false, oldest + ".2-eks-a1b2c3d": false, "1.35.1-gke.1396000": false, "1.36.3": true, "1.37.2": true,
	} {
		text := template(
			t, "two", "--set", "identity.mode=impersonation,identity.constrainedImpersonation=auto", "--kube-version",
			"v"+version,
		)
		if got := strings.Contains(text, "impersonate:arbitrary-node"); got != constrained {
			t.Errorf("%s: constrained impersonation %v, want %v", version, got, constrained)
		}
	}
	for _, older := range []string{"1.33.9", "1.29.0"} {
		_, problems, err := helm(
			t, "template", namespace, chartDir, "--values", valuesFile("two"), "--kube-version", "v"+older,
		)
		if err == nil || !strings.Contains(problems, "kubeVersion: >="+oldest) {
			t.Errorf("%s: %v, %s", older, err, problems)
		}
	}
}

// TestNotes: what a user reads after the installation.
func TestNotes(t *testing.T) {
	t.Parallel()
	for _, set := range withNotes {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			out, problems, err := helm(
				t, "install", namespace, chartDir, "--dry-run=client", "--namespace", namespace, "--values", valuesFile(set),
			)
			if err != nil {
				t.Fatalf("%v\n%s", err, problems)
			}
			_, notes, found := strings.Cut(out, "\nNOTES:\n")
			if !found {
				t.Fatalf("no notes in:\n%s", out)
			}
			golden(t, goldenFile(set+".txt"), []byte(notes))
		})
	}
}

func TestLint(t *testing.T) {
	t.Parallel()
	with := map[string][]string{"without values": nil}
	for _, set := range sets(t) {
		with[set] = []string{"--values", valuesFile(set)}
	}
	for name, args := range with {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, problems, err := helm(t, append([]string{"lint", "--strict", chartDir}, args...)...); err != nil {
				t.Errorf("%v\n%s%s", err, out, problems)
			}
		})
	}
}

// TestConfiguration: burstlet takes the configuration file of every set, with the
// variables of the pod; its ports are the container's, and the files that it names are
// mounted: in the Deployment, in the Job that removes the nodes and in the test.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	for _, set := range sets(t) {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			all := rendered(t, set)
			name := fullname(set)
			deployment := find[appsv1.Deployment](t, all, "Deployment", name)
			container := deployment.Spec.Template.Spec.Containers[0]
			cfg := load(t, find[corev1.ConfigMap](t, all, "ConfigMap", name), container.Env)
			ports := []int32{int32(cfg.HealthzPort)}
			for _, node := range cfg.Nodes {
				ports = append(ports, int32(node.KubeletAPI.Port))
			}
			var open []int32
			for _, port := range container.Ports {
				open = append(open, port.ContainerPort)
			}
			if !slices.Equal(ports, open) {
				t.Errorf("the configuration has the ports %v, the container %v", ports, open)
			}
			job := find[batchv1.Job](t, all, "Job", name+"-remove-nodes")
			// Helm waits 5 minutes by default: the Job must have failed before.
			byDefault := slices.Contains(job.Spec.Template.Spec.Containers[0].Args, "--timeout=4m30s")
			if d := *job.Spec.ActiveDeadlineSeconds; byDefault && d >= 300 {
				t.Errorf("the removal's Job may take %d s", d)
			}
			doctor := find[corev1.Pod](t, all, "Pod", name+"-doctor")
			for _, pod := range []corev1.PodSpec{deployment.Spec.Template.Spec, job.Spec.Template.Spec, doctor.Spec} {
				for _, file := range files(cfg) {
					if !mounted(pod, file) {
						t.Errorf("%s is not mounted", file)
					}
				}
			}
		})
	}
}

// TestTaskImageByDigest: an image by digest is the one of tasks too, unless theirs is named.
func TestTaskImageByDigest(t *testing.T) {
	t.Parallel()
	own, task := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	for want, set := range map[string]string{
		"ghcr.io/burstlet/burstlet@" + own:       "image.digest=" + own,
		"ghcr.io/burstlet/burstlet-task@" + task: "image.digest=" + own + ",image.taskDigest=" + task,
	} {
		all := manifests(t, template(t, "ecs", "--set", set))
		cfg := load(t, find[corev1.ConfigMap](t, all, "ConfigMap", namespace), nil)
		if got := cfg.Nodes[0].Backend.ECS.TaskImage; got != want {
			t.Errorf("%s: got %q, want %q", set, got, want)
		}
	}
}

// TestTaskImage: a node on ecs has the release's image of tasks where Fargate can pull it,
// unless it says otherwise.
func TestTaskImage(t *testing.T) {
	t.Parallel()
	for repository, want := range map[string]string{
		"ghcr.io/burstlet/burstlet":                           "ghcr.io/burstlet/burstlet-task:0.1.0",
		"123456789012.dkr.ecr.eu-central-1.amazonaws.com/b/b": "123456789012.dkr.ecr.eu-central-1.amazonaws.com/b/b-task:0.1.0",
		"localhost:5000/burstlet":                             "",
		"registry:5000/burstlet":                              "",
		"registry.kube-system.svc:5000/burstlet":              "",
		"10.1.2.3:5000/burstlet":                              "",
		"burstlet":                                            "",
	} {
		t.Run(strings.ReplaceAll(repository, "/", " "), func(t *testing.T) {
			t.Parallel()
			all := manifests(t, template(t, "ecs", "--set", "image.repository="+repository))
			cfg := load(t, find[corev1.ConfigMap](t, all, "ConfigMap", namespace), nil)
			if got := cfg.Nodes[0].Backend.ECS.TaskImage; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if got := cfg.Nodes[1].Backend.ECS.TaskImage; got != "" {
				t.Errorf("got %q where there shall be none", got)
			}
		})
	}
}

func fullname(set string) string {
	if set == "everything" {
		return "virtual"
	}
	return namespace
}

// load reads the configuration as burstlet does in its pod.
func load(t *testing.T, from corev1.ConfigMap, env []corev1.EnvVar) config.Configuration {
	t.Helper()
	file := filepath.Join(t.TempDir(), "burstlet.yaml")
	if err := os.WriteFile(file, []byte(from.Data["burstlet.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(
		config.Sources{File: file, PodNamespace: namespace, LookupEnv: func(name string) (string, bool) {
			i := slices.IndexFunc(env, func(v corev1.EnvVar) bool { return v.Name == name })
			if i < 0 || env[i].ValueFrom == nil {
				return "", false
			}
			return "192.0.2.99", env[i].ValueFrom.FieldRef.FieldPath == "status.podIP"
		}},
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range cfg.Nodes {
		if node.Node.InternalIP == "" && env != nil {
			t.Errorf("node %s does not say where it is reached", node.Node.Name)
		}
	}
	return cfg
}

// files are those that the configuration names on burstlet's own side.
func files(cfg config.Configuration) []string {
	var all []string
	for _, node := range cfg.Nodes {
		all = append(all, node.CertDirectory, node.BootstrapKubeconfig, node.KubeletAPI.CertFile, node.KubeletAPI.KeyFile)
		if cri := node.Backend.CRI; cri != nil && cri.SSH != nil {
			all = append(append(all, cri.SSH.KnownHostsFile, cri.SSH.PassphraseFile), cri.SSH.KeyFiles...)
		}
	}
	return slices.DeleteFunc(all, func(file string) bool { return file == "" })
}

// mounted says that a volume of the pod holds the file.
func mounted(pod corev1.PodSpec, file string) bool {
	for _, mount := range pod.Containers[0].VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		name, below := strings.CutPrefix(file, mount.MountPath+"/")
		if i >= 0 && below && holds(pod.Volumes[i], name) {
			return true
		}
	}
	return false
}

// holds says that a volume may hold a file of a name: one of chosen keys has no other.
func holds(v corev1.Volume, name string) bool {
	chosen := func(items []corev1.KeyToPath) bool {
		return len(items) == 0 || slices.ContainsFunc(items, func(i corev1.KeyToPath) bool { return i.Path == name })
	}
	switch {
	case v.Secret != nil:
		return chosen(v.Secret.Items)
	case v.Projected != nil:
		return slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.Secret != nil && chosen(s.Secret.Items) || s.ConfigMap != nil && chosen(s.ConfigMap.Items)
		})
	}
	return true
}
