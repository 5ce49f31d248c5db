package chart

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// TestFilesStandOnce: the chart's files are files, since tools that pack a chart out of Git
// (Flux's source-controller) drop symbolic links; deploy links to each of them.
func TestFilesStandOnce(t *testing.T) {
	t.Parallel()
	linked := map[string]bool{}
	for _, path := range filesBelow(t, deployDir) {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		to, err := filepath.EvalSymlinks(path)
		if err != nil {
			t.Errorf("%s leads nowhere: %v", path, err)
			continue
		}
		for _, file := range filesBelow(t, to) {
			linked[file] = true
		}
	}
	for _, file := range filesBelow(t, filepath.Join(chartDir, "files")) {
		if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s is no file: %v", file, err)
		}
		if !linked[file] {
			t.Errorf("deploy has no link to %s", file)
		}
	}
}

// TestRights: the chart's roles grant what deploy/rbac grants, which other tests hold to what
// burstlet does, and to the same groups.
func TestRights(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ set, kind, in, name, file, of string }{
		{"ssh", "ClusterRole", "", "burstlet:burstlet:node", "constrained-impersonation.yaml", "burstlet:node"},
		{
			"ssh", "Role", "kube-node-lease", "burstlet:burstlet:node-lease", "constrained-impersonation.yaml",
			"burstlet:node-lease",
		},
		{"two", "ClusterRole", "", "burstlet:burstlet:impersonate-node", "serviceaccount.yaml", "burstlet:impersonate-node"},
		{"ssh", "Role", namespace, "burstlet:burstlet:leader-election", "serviceaccount.yaml", "burstlet:leader-election"},
		{"bootstrap", "ClusterRole", "", "burstlet:burstlet:approver", "approver.yaml", "burstlet:approver"},
		{"bootstrap", "Role", namespace, "burstlet-approver", "approver.yaml", "burstlet:approver"},
		{
			"bootstrap", "ClusterRole", "", "burstlet:burstlet:bootstrap-approval", "bootstrap.yaml",
			"burstlet:bootstrap-approval",
		},
		{"ssh", "ClusterRole", "", "burstlet:burstlet:remove-nodes", "remove-nodes.yaml", "burstlet:remove-nodes"},
		{"ssh", "Role", "default", "burstlet:burstlet:remove-nodes", "remove-nodes.yaml", "burstlet:remove-nodes"},
		{"ssh", "Role", "kube-node-lease", "burstlet:burstlet:remove-nodes", "remove-nodes.yaml", "burstlet:remove-nodes"},
		{"ssh", "Role", namespace, "burstlet:remove-nodes", "remove-nodes.yaml", "burstlet:remove-nodes"},
	} {
		all := rendered(t, tc.set)
		got, want := role(t, all, tc.kind, tc.in, tc.name), role(t, deployed(t, tc.file), tc.kind, tc.in, tc.of)
		forNodes(want, nodesOf(t, all))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s %s: the chart gives\n%s\n%s gives\n%s", tc.kind, tc.name, asYAML(t, got), tc.file, asYAML(t, want))
		}
	}
	all, other := rendered(t, "bootstrap"), deployed(t, "bootstrap.yaml")
	for _, name := range []string{"bootstrap", "rotation-approval"} {
		got := find[rbacv1.ClusterRoleBinding](t, all, "ClusterRoleBinding", "burstlet:burstlet:"+name)
		want := find[rbacv1.ClusterRoleBinding](t, other, "ClusterRoleBinding", "burstlet:"+name)
		if got.RoleRef != want.RoleRef || !reflect.DeepEqual(got.Subjects, want.Subjects) {
			t.Errorf(
				"%s: the chart binds %v to %v, deploy/rbac %v to %v", name, got.RoleRef, got.Subjects, want.RoleRef, want.Subjects,
			)
		}
	}
}

// TestNobodyBecomesAnyNode: who has the token of a release, which lies in its pods, cannot
// have Kubernetes certify every node of the cluster.
func TestNobodyBecomesAnyNode(t *testing.T) {
	t.Parallel()
	const allNodes = "system:certificates.k8s.io:certificatesigningrequests:nodeclient"
	for what, all := range map[string][]manifest{
		"the chart": rendered(t, "bootstrap"), "deploy/rbac": deployed(t, "bootstrap.yaml"),
	} {
		for _, m := range all {
			var binding rbacv1.ClusterRoleBinding
			if m.Kind != "ClusterRoleBinding" {
				continue
			}
			if err := yaml.Unmarshal([]byte(m.text), &binding); err != nil {
				t.Fatal(err)
			}
			if binding.RoleRef.Name == allNodes {
				t.Errorf("%s binds %s to %v", what, allNodes, binding.Subjects)
			}
		}
	}
	all := rendered(t, "bootstrap")
	approver := find[appsv1.Deployment](t, all, "Deployment", "burstlet-approver")
	if args := approver.Spec.Template.Spec.Containers[0].Args; !slices.Contains(
		args, "--bootstrap-groups=system:bootstrappers:burstlet",
	) ||
		!slices.Contains(args, "--nodes=edge-1,edge-2") {
		t.Errorf("the approver has the arguments %q", args)
	}
	if token := find[corev1.Secret](t, all, "Secret", "bootstrap-token-abcdef"); token.StringData["expiration"] == "" {
		t.Error("the token does not expire")
	}
}

// nodesOf are the names of the nodes that are configured.
func nodesOf(t *testing.T, all []manifest) []string {
	t.Helper()
	var names []string
	for _, node := range load(t, find[corev1.ConfigMap](t, all, "ConfigMap", namespace), nil).Each() {
		names = append(names, node.Node.Name)
	}
	return names
}

// forNodes puts nodes in the place of node burstlet, which the files name.
func forNodes(rules []rbacv1.PolicyRule, nodes []string) {
	for i, rule := range rules {
		switch {
		case slices.Contains(rule.Verbs, "impersonate:arbitrary-node"):
			rules[i].ResourceNames = nodes
		case slices.Contains(rule.Resources, "users"):
			rules[i].ResourceNames = nil
			for _, name := range nodes {
				rules[i].ResourceNames = append(rules[i].ResourceNames, "system:node:"+name)
			}
		}
	}
}

// TestNothingMore: with a credential of its own burstlet's account may fight for its
// leases and read the public CA of callers, and nothing else; what removes nodes has its
// rights while it runs.
func TestNothingMore(t *testing.T) {
	t.Parallel()
	for _, m := range rendered(t, "bootstrap") {
		var binding rbacv1.ClusterRoleBinding // or a RoleBinding
		if m.hook() || !strings.HasSuffix(m.Kind, "Binding") {
			continue
		}
		if err := yaml.Unmarshal([]byte(m.text), &binding); err != nil {
			t.Fatal(err)
		}
		for _, s := range binding.Subjects {
			if s.Kind == rbacv1.ServiceAccountKind && s.Name == "burstlet" &&
				binding.RoleRef.Name != "burstlet:burstlet:leader-election" &&
				binding.RoleRef.Name != "extension-apiserver-authentication-reader" {
				t.Errorf("it has the role %s", binding.RoleRef.Name)
			}
		}
	}
}

func deployed(t *testing.T, file string) []manifest {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(deployDir, "rbac", file))
	if err != nil {
		t.Fatal(err)
	}
	return manifests(t, string(data))
}

// role returns the rules of a role.
func role(t *testing.T, all []manifest, kind, in, name string) []rbacv1.PolicyRule {
	t.Helper()
	for _, m := range all {
		if m.Kind == kind && m.Name == name && m.Namespace == in {
			var role rbacv1.ClusterRole // or a Role
			if err := yaml.Unmarshal([]byte(m.text), &role); err != nil {
				t.Fatal(err)
			}
			if len(role.Rules) == 0 {
				t.Fatalf("%s %s has no rules", kind, name)
			}
			return role.Rules
		}
	}
	t.Fatalf("there is no %s %s in %q", kind, name, in)
	return nil
}

func asYAML(t *testing.T, value any) string {
	t.Helper()
	data, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(data))
}
