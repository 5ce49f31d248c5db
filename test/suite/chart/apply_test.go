package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/parts/controlplane"
)

// prepared is done once for the control plane: the namespace of releases, which warns of
// pods that Pod Security "restricted" would not let run, and the CRDs of the Prometheus
// operator.
var prepared sync.Once

const restricted = `apiVersion: v1
kind: Namespace
metadata: {name: burstlet, labels: {pod-security.kubernetes.io/warn: restricted}}
---
apiVersion: v1
kind: List
items: # a pod is not taken without them
  - {apiVersion: v1, kind: ServiceAccount, metadata: {name: burstlet, namespace: burstlet}}
  - {apiVersion: v1, kind: ServiceAccount, metadata: {name: burster, namespace: burstlet}}
  - {apiVersion: v1, kind: ServiceAccount, metadata: {name: mine, namespace: burstlet}}
`

// cluster is the control plane, ready for releases. Tests that use it run from the gate
// on; what Helm renders is looked at in every lane.
func cluster(t *testing.T) *controlplane.ControlPlane {
	t.Helper()
	lane.From(t, lane.Gate)
	cp := plane.Get(t)
	prepared.Do(func() {
		crds, err := os.ReadFile(filepath.Join("testdata", "crds.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		kubectl(t, cp, restricted+"---\n"+string(crds), "apply", "--server-side", "-f", "-")
		kubectl(t, cp, "", "wait", "--for=condition=Established", "--timeout=60s",
			"crd/servicemonitors.monitoring.coreos.com", "crd/prometheusrules.monitoring.coreos.com")
	})
	return cp
}

// kubectl runs as an administrator and returns what was printed.
func kubectl(t *testing.T, cp *controlplane.ControlPlane, stdin string, args ...string) string {
	t.Helper()
	out, err := tryKubectl(t, cp, stdin, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func tryKubectl(t *testing.T, cp *controlplane.ControlPlane, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(
		t.Context(), cp.Kubectl(), append([]string{"--kubeconfig", cp.KubeconfigPath()}, args...)...,
	)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// accepted asks the API server to take what was rendered, field by field, without
// keeping it, and returns its warnings.
func accepted(t *testing.T, cp *controlplane.ControlPlane, text string) (warnings []string) {
	t.Helper()
	out := kubectl(t, cp, text, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
	taken := 0
	for line := range strings.Lines(out) {
		switch {
		case strings.Contains(line, "(server dry run)"):
			taken++
		case strings.HasPrefix(line, "Warning:"):
			warnings = append(warnings, strings.TrimSpace(line))
		}
	}
	if want := len(manifests(t, text)); taken != want {
		t.Errorf("%d of %d objects were taken:\n%s", taken, want, out)
	}
	return warnings
}

// TestApplied: the API server takes every object of every set, and Pod Security
// "restricted" every pod but those in the host's network.
func TestApplied(t *testing.T) {
	t.Parallel()
	cp := cluster(t)
	for _, set := range sets(t) {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			var texts []string
			for _, m := range rendered(t, set) {
				texts = append(texts, m.text)
			}
			warnings := accepted(t, cp, strings.Join(texts, "\n---\n"))
			for _, warning := range warnings {
				if set != "host" || !strings.Contains(warning, "host namespaces (hostNetwork=true)") ||
					strings.Contains(warning, "), ") {
					t.Error(warning)
				}
			}
			if set == "host" && len(warnings) == 0 {
				t.Error("the API server does not warn of the host's network: it judges no pods")
			}
		})
	}
}

// withDashboards is a release that has them.
func withDashboards(t *testing.T) string {
	t.Helper()
	return template(t, "ssh", "--set", "grafanaDashboards.enabled=true")
}

// TestDashboardsAreApplied: the API server takes them.
func TestDashboardsAreApplied(t *testing.T) {
	t.Parallel()
	accepted(t, cluster(t), withDashboards(t))
}

// TestDashboards: each is a ConfigMap, and in it the file.
func TestDashboards(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(chartDir, "files", "dashboards", "burstlet-*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	all := manifests(t, withDashboards(t))
	for _, file := range files {
		short := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "burstlet-"), ".json")
		got := find[corev1.ConfigMap](t, all, "ConfigMap", "burstlet-dashboard-"+short)
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got.Data["burstlet-"+filepath.Base(file)] != strings.TrimSpace(string(want)) ||
			got.Labels["grafana_dashboard"] != "1" {
			t.Errorf("%s is not in its ConfigMap, or that has not its label", file)
		}
	}
}
