package explain

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend/cri/fields"
)

const explainHostConfig = `
apiVersion: burstlet.dev/v1alpha1
kind: BurstletConfiguration
node: {name: host-1}
clusterDNS: [10.96.0.10]
backend:
  type: cri
  cri: {endpoint: "ssh://root@192.0.2.7", ssh: {keyFiles: [/keys/id], knownHostsFile: /keys/known_hosts}, podPidsLimit: 1024}
`

// What becomes of pods on a container host, word by word, as text and as JSON.
func TestExplainOnAHostIsAsWritten(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	ends := map[string]string{"text": ".golden.txt", "json": ".golden.json"}
	goldens, err := filepath.Glob("testdata/*.golden.*")
	if err != nil {
		t.Fatal(err)
	}
	for _, golden := range goldens {
		name, end, _ := strings.Cut(golden, ".golden.")
		if !slices.Contains(files, name+".yaml") || end != "txt" && end != "json" {
			t.Errorf("%s is of no pod any more: remove it", golden)
		}
	}
	for _, file := range files {
		for format, end := range ends {
			t.Run(filepath.Base(file)+" "+format, func(t *testing.T) {
				got, failed := run(t, format, explainHostConfig, file)
				if (failed != nil) != strings.Contains(file, "refused") {
					t.Fatalf("%v: %s", failed, got)
				}
				golden := strings.TrimSuffix(file, ".yaml") + end
				if *update {
					if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(string(want), got); d != "" {
					t.Errorf(
						"not as in %s; go test ./cmd/burstlet/explain -run TestExplainOnAHost -update (-file +now):\n%s", golden, d,
					)
				}
			})
		}
	}
}

func TestExplainOnAHostShowsNoSecret(t *testing.T) {
	text, err := run(t, "json", explainHostConfig, saved(t, "p.yaml", `
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {k: canary-7f3a}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - {name: c, image: i, env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}, {name: B, value: "canary-of-env"}], args: ["$(A)"]}
`))
	if err != nil || strings.Contains(text, "canary") || !strings.Contains(text, "(k of Secret s)") {
		t.Errorf("%v: %s", err, text)
	}
}

// A pod that a launch would find invalid is refused.
func TestExplainOnAHostTellsWhatALaunchRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ spec, want string }{
		"root against its own word": {
			`containers: [{name: c, image: i, securityContext: {runAsUser: 0, runAsNonRoot: true}}]`,
			"container c: container's runAsUser breaks non-root policy",
		},
		"a long name": {
			"hostname: " + strings.Repeat("h", 60) +
				"\n  subdomain: d\n  setHostnameAsFQDN: true\n  containers: [{name: c, image: i}]",
			"is too long",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := explained(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  "+tc.spec, explainHostConfig)
			if err == nil || got[0].Accepted || got[0].Host != nil || !strings.Contains(got[0].Refused[0].How, tc.want) {
				t.Errorf("%v: %+v", err, got)
			}
		})
	}
}

// What the node's configuration forbids is refused by its field.
func TestExplainOnAHostTellsWhatTheConfigurationForbids(t *testing.T) {
	forbids := explainHostConfig + "pods: {privileged: false, hostPaths: [{pathPrefix: /srv}]}\n"
	for field, spec := range map[string]string{
		"": `{containers: [{name: c, image: i, securityContext: {capabilities: {add: [CHOWN]}},
  volumeMounts: [{name: v, mountPath: /v}]}], volumes: [{name: v, hostPath: {path: /srv/x}}]}`,
		"spec.containers[0].securityContext.privileged":          `{containers: [{name: c, image: i, securityContext: {privileged: true}}]}`,
		"spec.containers[0].securityContext.capabilities.add[0]": `{containers: [{name: c, image: i, securityContext: {capabilities: {add: [NET_ADMIN]}}}]}`,
		"spec.volumes[0].hostPath.path":                          `{containers: [{name: c, image: i}], volumes: [{name: v, hostPath: {path: /etc}}]}`,
	} {
		pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: " + spec
		if got, err := explained(t, pod, explainHostConfig); err != nil || !got[0].Accepted {
			t.Errorf("%s: %v: refused by default: %+v", field, err, got)
		}
		got, err := explained(t, pod, forbids)
		if field == "" && err == nil && got[0].Accepted {
			continue
		}
		if err == nil || len(got[0].Refused) != 1 || got[0].Refused[0].Field != field {
			t.Errorf("%s: %v: %+v", field, err, got[0].Refused)
		}
	}
}

// asAbove is a cell that stands for the one before it.
const asAbove = "as above"

// explain says of a field on a host what docs/fields.md says.
func TestExplainSaysOfHostsWhatTheFieldsPageSays(t *testing.T) {
	several := regexp.MustCompile(`^(containers\[\]|initContainers\[\])$`)
	for _, section := range fieldSections() {
		for _, row := range section.rows {
			if row.cri == no || row.cri == asAbove || several.MatchString(row.field) {
				continue // refused, or said of containers as a whole
			}
			pod := plainPod()
			row.set(pod)
			path := "spec." + strings.TrimSuffix(strings.NewReplacer("ontainers[].", "ontainers[0].").Replace(row.field), "[]")
			if got := fields.Uses(pod)[path]; got != row.cri {
				t.Errorf("%s, %s: explain says %q, the page %q", row.field, row.value, got, row.cri)
			}
		}
	}
}
