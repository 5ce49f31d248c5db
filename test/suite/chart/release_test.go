package chart

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/burstlet/burstlet/test/parts/controlplane"
)

// release runs Helm against a cluster, for one release.
type release struct {
	*testing.T
	cp        *controlplane.ControlPlane
	namespace string
}

// try runs a command of Helm for the release, with further arguments.
func (r release) try(command string, args ...string) (string, error) {
	r.Helper()
	all := append(strings.Fields(command), "burstlet", "--namespace", r.namespace, "--kubeconfig", r.cp.KubeconfigPath())
	if command == "install" || command == "upgrade" {
		all = append(all, chartDir)
	}
	out, problems, err := helm(r.T, append(all, args...)...)
	if err != nil {
		err = fmt.Errorf("helm %s: %w\n%s", command, err, problems)
	}
	return out, err
}

func (r release) helm(command string, args ...string) string {
	r.Helper()
	out, err := r.try(command, args...)
	if err != nil {
		r.Fatal(err)
	}
	return out
}

// install makes a release in a namespace of its own.
func install(t *testing.T, name string, args ...string) release {
	t.Helper()
	r := release{T: t, cp: cluster(t), namespace: name}
	r.helm("install", append([]string{"--create-namespace"}, args...)...)
	return r
}

// planned are the objects and hooks of an upgrade that is not made.
func (r release) planned(args ...string) []manifest {
	r.Helper()
	out := r.helm("upgrade", append(args, "--dry-run=server")...)
	_, out, found := strings.Cut(out, "\nHOOKS:\n")
	if !found {
		r.Fatalf("no hooks in:\n%s", out)
	}
	out, _, _ = strings.Cut(out, "\nNOTES:\n")
	return manifests(r.T, strings.Replace(out, "\nMANIFEST:\n", "\n---\n", 1))
}

func sims(names ...string) []string {
	var args []string
	for _, name := range names {
		args = append(args, "--set", "nodes."+name+".backend.type=sim")
	}
	return args
}

// TestNodeTakenAway: an upgrade without a node that the release has removes it first,
// with what the running Deployment was given and the configuration in which the node
// stands; without such a node it has no hook.
func TestNodeTakenAway(t *testing.T) {
	t.Parallel()
	r := install(t, "taken-away", append(sims("a", "b", "c"), "--set", "serviceAccount.name=former",
		"--set", "image.tag=former", "--set", "config.leaderElection.namespace=kube-system")...)
	for _, m := range r.planned(sims("a", "b", "c", "d")...) {
		if strings.Contains(m.Name, "remove-gone") {
			t.Errorf("%s %s, and no node goes", m.Kind, m.Name)
		}
	}
	all := r.planned(append(sims("b", "d"), "--set", "removal.timeout=10m")...)
	job := find[batchv1.Job](t, all, "Job", "burstlet-remove-gone")
	if job.Annotations["helm.sh/hook"] != "pre-upgrade" || *job.Spec.ActiveDeadlineSeconds != 620 {
		t.Errorf("hook %q, %d s", job.Annotations["helm.sh/hook"], *job.Spec.ActiveDeadlineSeconds)
	}
	asFormer(
		t, job.Spec.Template.Spec, "remove-nodes --deployment=taken-away/burstlet --timeout=10m --force-after=2m --nodes=a,c",
	)
	binding := find[rbacv1.ClusterRoleBinding](t, all, "ClusterRoleBinding", "taken-away:burstlet:remove-gone")
	if s := binding.Subjects[0]; s.Name != "former" || s.Namespace != "taken-away" {
		t.Errorf("the rights are for %v", s)
	}
	find[rbacv1.Role](
		t, slices.DeleteFunc(slices.Clone(all), func(m manifest) bool { return m.Namespace != "kube-system" }), "Role",
		"taken-away:burstlet:remove-gone",
	)
	var texts []string
	for _, m := range all {
		if m.Annotations["helm.sh/hook"] == "pre-upgrade" {
			texts = append(texts, m.text)
		}
	}
	for _, warning := range accepted(t, r.cp, strings.Join(texts, "\n---\n")) {
		t.Error(warning)
	}
	if off := r.planned(append(sims("b"), "--set", "removal.enabled=false")...); strings.Contains(
		asYAML(t, off), "remove-gone",
	) {
		t.Error("it is removed though removal.enabled is false")
	}
}

// asFormer looks at the pod of a removal: it has what the Deployment has that runs, and
// these arguments.
func asFormer(t *testing.T, pod corev1.PodSpec, want string) {
	t.Helper()
	container := pod.Containers[0]
	if got := strings.Join(container.Args, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if pod.ServiceAccountName != "former" || !strings.HasSuffix(container.Image, ":former") || len(pod.Volumes) == 0 {
		t.Errorf("it is not what the Deployment has: %s", asYAML(t, pod))
	}
	if container.ReadinessProbe != nil || container.Ports != nil || pod.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("it is no pod of a Job: %s", asYAML(t, pod))
	}
}

// TestScaledDown: what burstlet remove-nodes does to the Deployment is no conflict for
// the upgrade that follows.
func TestScaledDown(t *testing.T) {
	t.Parallel()
	r := install(t, "scaled-down", sims("a")...)
	kubectl(t, r.cp, "", "--namespace", r.namespace, "scale", "deployment/burstlet", "--replicas=0")
	r.helm("upgrade", sims("a")...)
	out := kubectl(t, r.cp, "", "--namespace", r.namespace, "get", "deployment/burstlet", "-o", "yaml")
	var deployment appsv1.Deployment
	if err := yaml.Unmarshal([]byte(out), &deployment); err != nil || *deployment.Spec.Replicas != 1 {
		t.Errorf("%d replicas, %v", *deployment.Spec.Replicas, err)
	}
}

// TestElectionChanges: processes that know nothing of each other's leases never run
// beside each other.
func TestElectionChanges(t *testing.T) {
	t.Parallel()
	r := install(t, "election", append(sims("a"), "--set", "config.leaderElection.enabled=false")...)
	strategy := func(args ...string) appsv1.DeploymentStrategyType {
		return find[appsv1.Deployment](
			t, r.planned(append(args, sims("a")...)...), "Deployment", "burstlet",
		).Spec.Strategy.Type
	}
	if got := strategy(); got != appsv1.RecreateDeploymentStrategyType {
		t.Errorf("it is turned on: %s", got)
	}
	r.helm("upgrade", sims("a")...)
	if got := strategy(
		"--set", "config.leaderElection.namespace=kube-system",
	); got != appsv1.RecreateDeploymentStrategyType {
		t.Errorf("its leases stand elsewhere: %s", got)
	}
	if got := strategy(
		"--set", "config.leaderElection.namespace=election",
	); got != appsv1.RollingUpdateDeploymentStrategyType {
		t.Errorf("nothing changes: %s", got)
	}
}

// TestElectionLeaseChanges: several nodes have one lease, and the processes that fight for it never
// run beside those that fight for others.
func TestElectionLeaseChanges(t *testing.T) {
	t.Parallel()
	r := install(t, "lease", sims("a")...)
	for _, step := range []struct {
		args     []string
		lease    string
		strategy appsv1.DeploymentStrategyType
	}{
		{sims("a"), "", appsv1.RollingUpdateDeploymentStrategyType},
		{sims("a", "b"), "burstlet-nodes", appsv1.RecreateDeploymentStrategyType},
		{sims("a", "b", "c"), "burstlet-nodes", appsv1.RollingUpdateDeploymentStrategyType},
		{append(sims("a", "b"), "--set", "config.leaderElection.name=mine"), "mine", appsv1.RecreateDeploymentStrategyType},
		{append(sims("a"), "--set", "config.leaderElection.name=mine"), "mine", appsv1.RollingUpdateDeploymentStrategyType},
		{append(sims("a", "b"), "--set", "config.leaderElection.name="), "", appsv1.RecreateDeploymentStrategyType},
		{sims("a"), "", appsv1.RollingUpdateDeploymentStrategyType},
		{sims("a", "b"), "burstlet-nodes", appsv1.RecreateDeploymentStrategyType},
		{sims("a"), "", appsv1.RecreateDeploymentStrategyType},
	} {
		args := append(step.args, "--set", "removal.enabled=false")
		all := r.planned(args...)
		if got := find[appsv1.Deployment](t, all, "Deployment", "burstlet").Spec.Strategy.Type; got != step.strategy {
			t.Errorf("%v: strategy %s, want %s", step.args, got, step.strategy)
		}
		var file struct {
			LeaderElection struct {
				Name string `json:"name"`
			} `json:"leaderElection"`
		}
		text := find[corev1.ConfigMap](t, all, "ConfigMap", "burstlet").Data["burstlet.yaml"]
		if err := yaml.Unmarshal([]byte(text), &file); err != nil || file.LeaderElection.Name != step.lease {
			t.Errorf("%v: lease %q, want %q; %v", step.args, file.LeaderElection.Name, step.lease, err)
		}
		r.helm("upgrade", args...)
	}
}

// TestTokenIsKept: the bootstrap token that the chart chooses is chosen once.
func TestTokenIsKept(t *testing.T) {
	t.Parallel()
	args := append(sims("a"), "--set", "identity.mode=bootstrap", "--set", "identity.bootstrap.token.create=true",
		"--set-string", "identity.bootstrap.token.expiration=2050-01-02T15:04:05Z")
	r := install(t, "kept", args...)
	token := func(all []manifest) string {
		return find[corev1.Secret](t, all, "Secret", "burstlet-bootstrap").StringData["token"]
	}
	first := token(manifests(t, r.helm("get manifest")))
	if len(first) != len("abcdef.0123456789abcdef") || first != token(r.planned(args...)) {
		t.Errorf("%q was not kept", first)
	}
}
