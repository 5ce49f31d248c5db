package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// roles are the rules of a file, one a line, by the namespace where they hold.
func roles(t *testing.T, content string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, document := range strings.Split(content, "\n---\n") {
		var role rbacv1.Role // a ClusterRole has the same fields
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				if strings.HasPrefix(resource, "selfsubject") || len(rule.ResourceNames) > 0 {
					continue // who one is, what one may do, and the impersonation itself
				}
				for _, verb := range rule.Verbs {
					verb = strings.TrimPrefix(verb, "impersonate-on:arbitrary-node:")
					found[role.Namespace] = append(
						found[role.Namespace], strings.Join([]string{rule.APIGroups[0], resource, verb}, " "),
					)
				}
			}
		}
	}
	for _, rules := range found {
		slices.Sort(rules)
	}
	return found
}

// TestRights compares the rights of the demo's node with those that any node needs:
// rights to what pods reference in their namespace are for the demo's namespace alone,
// the rest for the whole cluster.
func TestRights(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "rbac", "constrained-impersonation.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := mineFiles.ReadFile("mine/" + rightsFile)
	if err != nil {
		t.Fatal(err)
	}
	want := roles(t, string(content))
	for _, verb := range []string{"get", "create", "update"} { // of the election
		want[demoName] = append(want[demoName], "coordination.k8s.io leases "+verb)
	}
	everywhere := want[""]
	want[""] = nil
	for _, rule := range everywhere {
		// the demo has no static pods and no credential providers
		if rule == " pods create" || rule == " serviceaccounts get" {
			continue
		}
		in := ""
		switch strings.Fields(rule)[0] {
		case "secrets", "configmaps", "serviceaccounts/token", "persistentvolumeclaims":
			in = demoName
		}
		want[in] = append(want[in], rule)
	}
	for _, rules := range want {
		slices.Sort(rules)
	}
	if diff := cmp.Diff(want, roles(t, string(own))); diff != "" {
		t.Errorf("deploy/rbac/constrained-impersonation.yaml -, mine/%s +:\n%s", rightsFile, diff)
	}
}

func TestCheckLogFiles(t *testing.T) {
	const lines = "2026-01-02T03:04:05.6Z stdout F computing\n2026-01-02T03:04:05.7Z stdout F done\n"
	texts := func(string) []string { return []string{"computing", "done"} }
	for name, tc := range map[string]struct{ output, want string }{
		"all":            {lines + lines, ""},
		"one is missing": {lines, `the logs have the line "computing" 1 times, not 2`},
		"more than that": {strings.ReplaceAll(lines+lines, "done", "done so"), `"done" 0 times`},
		"nothing at all": {"", `"done" 0 times`},
	} {
		t.Run(name, func(t *testing.T) {
			expectError(t, checkLogFiles(tc.output, []corev1.Pod{testPod("a"), testPod("b")}, texts), tc.want)
		})
	}
}
