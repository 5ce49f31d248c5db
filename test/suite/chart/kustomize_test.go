package chart

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// configName is the ConfigMap that overlays generate.
const configName = "burstlet-config"

var kustomizeDir = filepath.Join(deployDir, "kustomize")

// TestKustomizeIsTheChart: the manifests of deploy/kustomize are what the chart renders,
// without what Helm alone needs.
func TestKustomizeIsTheChart(t *testing.T) {
	t.Parallel()
	var made []string
	for _, set := range []struct {
		name  string
		place func(m manifest) string
	}{
		{"base", func(m manifest) string {
			switch {
			case m.Kind == "ConfigMap":
				return "" // the overlays'
			case m.Annotations["helm.sh/hook"] == "test":
				return ""
			case m.hook():
				return filepath.Join("remove-nodes", fileFor(m))
			}
			return filepath.Join("base", fileFor(m))
		}},
		{"components", func(m manifest) string {
			switch {
			case m.hook():
				return ""
			case m.Labels["app.kubernetes.io/component"] == "approver", strings.Contains(m.Name, "approver"):
				return filepath.Join("approver", fileFor(m))
			case m.Kind == "ClusterRoleBinding", strings.HasSuffix(m.Name, "bootstrap-approval"):
				return filepath.Join("bootstrap", fileFor(m))
			case m.Kind == "NetworkPolicy":
				return filepath.Join("network-policy", fileFor(m))
			case slices.Contains([]string{"Service", "ServiceMonitor", "PrometheusRule"}, m.Kind):
				return filepath.Join("monitoring", fileFor(m))
			}
			return "" // as in base, or the overlays'
		}},
	} {
		out, problems, err := helm(t, "template", namespace, chartDir, "--namespace", namespace,
			"--values", filepath.Join("testdata", "kustomize", set.name+".yaml"))
		if err != nil {
			t.Fatalf("%v\n%s", err, problems)
		}
		files := map[string]string{}
		for _, m := range manifests(t, out) {
			if file := set.place(m); file != "" {
				files[file] += "---\n" + withoutHelm(t, m)
			}
		}
		for file, text := range files {
			path := filepath.Join(kustomizeDir, file)
			made = append(made, path)
			golden(t, path, []byte(madeOf+strings.TrimPrefix(text, "---\n")))
		}
	}
	only(t, slices.DeleteFunc(filesBelow(t, kustomizeDir), func(path string) bool {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		return !strings.HasPrefix(string(data), madeOf) // somebody wrote it
	}), made)
}

// madeOf is how files begin that are made of the chart.
const madeOf = "# Made of charts/burstlet by go test ./test/suite/chart -update.\n"

func fileFor(m manifest) string {
	if strings.Contains(m.Kind, "Role") {
		return "rbac.yaml"
	}
	return strings.ToLower(m.Kind) + ".yaml"
}

// withoutHelm is an object as others would write it.
func withoutHelm(t *testing.T, m manifest) string {
	t.Helper()
	var o object
	if err := yaml.Unmarshal([]byte(m.text), &o); err != nil {
		t.Fatal(err)
	}
	strip(o)
	nameConfig(o)
	if args := dig(o, "spec", "template", "spec"); args != nil && strings.HasSuffix(m.Name, "-approver") {
		// The overlay adds --nodes.
		container := args["containers"].([]any)[0].(object)
		container["args"] = slices.DeleteFunc(
			container["args"].([]any), func(a any) bool { return strings.HasPrefix(a.(string), "--nodes=") },
		)
	}
	return asYAML(t, o) + "\n"
}

// nameConfig gives the ConfigMap of a pod another name than the Deployment's. Where both
// are alike, kustomize writes the ConfigMap's new name, with its hash, into resourceNames
// of Roles too, and the removal may not scale the Deployment.
func nameConfig(o object) {
	volumes, _ := dig(o, "spec", "template", "spec")["volumes"].([]any)
	for _, v := range volumes {
		if config := dig(v.(object), "configMap"); config["name"] == namespace {
			config["name"] = configName
		}
	}
}

func dig(o object, path ...string) object {
	for _, name := range path {
		o, _ = o[name].(object)
	}
	return o
}

// strip takes Helm's labels and annotations out, at any depth.
func strip(o object) {
	for name, value := range o {
		below, ok := value.(object)
		if !ok {
			continue
		}
		if name == "labels" || name == "annotations" {
			maps.DeleteFunc(below, func(key string, _ any) bool {
				return strings.HasPrefix(key, "helm.sh/") || key == "app.kubernetes.io/managed-by" ||
					key == "app.kubernetes.io/version" || key == "checksum/config"
			})
			if len(below) == 0 {
				delete(o, name)
			}
			continue
		}
		strip(below)
	}
}

// TestKustomize: every example is built and taken by the API server, alone and with the
// Job that removes its nodes; its configuration is one that burstlet takes, and the files
// that it names are mounted.
func TestKustomize(t *testing.T) {
	t.Parallel()
	cp := cluster(t)
	examples, err := filepath.Glob(filepath.Join(kustomizeDir, "examples", "*"))
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, example := range examples {
		for _, removal := range []bool{false, true} {
			name := filepath.Base(example)
			if removal {
				name += " with its removal"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				text := kubectl(t, cp, "", "kustomize", overlay(t, example, removal))
				for _, warning := range accepted(t, cp, text) {
					t.Error(warning)
				}
				all := manifests(t, text)
				mounts(t, all, removal)
				if removal {
					mayScale(t, all)
				}
			})
		}
	}
}

// mounts compares the configuration of an overlay with its pods.
func mounts(t *testing.T, all []manifest, removal bool) {
	t.Helper()
	deployment := find[appsv1.Deployment](t, all, "Deployment", "burstlet")
	pods := []corev1.PodSpec{deployment.Spec.Template.Spec}
	if removal {
		pods = append(pods, find[batchv1.Job](t, all, "Job", "burstlet-remove-nodes").Spec.Template.Spec)
	}
	actsAs(t, all)
	for _, pod := range pods {
		configMap := pod.Volumes[slices.IndexFunc(
			pod.Volumes, func(v corev1.Volume) bool { return v.Name == "config" },
		)].ConfigMap.Name
		cfg := load(t, find[corev1.ConfigMap](t, all, "ConfigMap", configMap), pod.Containers[0].Env)
		for _, file := range files(cfg) {
			if !mounted(pod, file) {
				t.Errorf("%s is not mounted", file)
			}
		}
		if cfg.HealthzPort != int(deployment.Spec.Template.Spec.Containers[0].Ports[0].ContainerPort) ||
			!cfg.LeaderElection.Enabled {
			t.Error("the configuration has not the health port of the probes, or no leader election")
		}
	}
}

// mayScale: the Job's Role is for the Deployment, by the name that it has in the end.
func mayScale(t *testing.T, all []manifest) {
	t.Helper()
	deployment := find[appsv1.Deployment](t, all, "Deployment", "burstlet")
	role := find[rbacv1.Role](t, all, "Role", "burstlet:remove-nodes")
	if !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Resources, "deployments/scale") && slices.Equal(r.ResourceNames, []string{deployment.Name})
	}) {
		t.Errorf("the removal may not scale Deployment %s: %+v", deployment.Name, role.Rules)
	}
}

// overlay copies an example as a user does, elsewhere, and adds the removal to it.
func overlay(t *testing.T, example string, removal bool) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(example)); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(kustomizeDir)
	if err != nil {
		t.Fatal(err)
	}
	if root, err = filepath.Rel(dir, root); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "kustomization.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if removal {
		was := text
		text = strings.NewReplacer(
			"# components:\n#   - ../../remove-nodes", "components:\n  - ../../remove-nodes", "# - ../../remove-nodes",
			"- ../../remove-nodes",
		).Replace(text)
		if text == was {
			t.Fatalf("%s: the removal is not there, commented out", file)
		}
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "../../", root+"/")), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// actsAs compares the nodes of an overlay with those that its ServiceAccount may act as.
func actsAs(t *testing.T, all []manifest) {
	t.Helper()
	var acts bool
	var want []string
	for _, m := range all {
		if m.Kind == "ConfigMap" && strings.HasPrefix(m.Name, configName) {
			for _, node := range load(t, find[corev1.ConfigMap](t, all, "ConfigMap", m.Name), nil).Each() {
				acts = node.ImpersonateNode
				want = append(want, "system:node:"+node.Node.Name)
			}
		}
	}
	const name = "burstlet:burstlet:impersonate-node"
	if !acts {
		if slices.ContainsFunc(all, func(m manifest) bool { return m.Name == name }) {
			t.Error("the ServiceAccount may act as nodes, which have credentials of their own")
		}
		return
	}
	if got := role(t, all, "ClusterRole", "", name)[0].ResourceNames; !slices.Equal(got, want) {
		t.Errorf("the ServiceAccount may act as %v, the nodes are %v", got, want)
	}
}
