package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// TestDoctorAsksForTheTokensOfPlugins: an audience that the node may not request is named,
// each once, and where no token is needed nothing is asked.
func TestDoctorAsksForTheTokensOfPlugins(t *testing.T) {
	const head = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
	provider := func(name, tokens string) string {
		return "- {name: " + name + ", apiVersion: credentialprovider.kubelet.k8s.io/v1, matchImages: [\"*.example.com\"], " +
			"defaultCacheDuration: 1m" + tokens + "}\n"
	}
	wants := func(audience string) string {
		return ", tokenAttributes: {serviceAccountTokenAudience: " + audience +
			", cacheType: Token, requireServiceAccount: true}"
	}
	all := head + provider("a", wants("registry")) + provider("b", wants("registry")) + provider("c", wants("other")) +
		provider("d", "")
	for name, tt := range map[string]struct {
		file   string
		asNode bool
		denied []string
		want   []string
	}{
		"all are allowed": {
			all, true, nil,
			[]string{`ok tokens for plugins system:node:n may request them for the audiences ["other" "registry"]`},
		},
		"one is not": {all, true, []string{audienceVerb + " registry"}, []string{
			`warn tokens for plugins system:node:n may not request tokens for audience "registry" of every ServiceAccount`,
		}},
		"none is": {all, true, []string{"registry", "other"}, []string{
			`warn tokens for plugins system:node:n may not request tokens for audience "other"`,
			`warn tokens for plugins system:node:n may not request tokens for audience "registry"`,
		}},
		"no plugin wants one": {head + provider("a", ""), true, []string{"registry"}, nil},
		"the user is no node": {all, false, []string{"registry"}, nil},
		"no such configuration": {
			"kind: Other", true, nil, []string{"FAIL tokens for plugins read the configuration of credential providers"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "providers.yaml")
			if err := os.WriteFile(file, []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			e := &clusterExam{client: reviewer(tt.denied...), user: whoami{name: "system:node:n"}}
			e.cfg.Images = config.Images{CredentialProviderConfigFile: file}
			e.audiences(t.Context(), tt.asNode)
			if len(e.found) != len(tt.want) {
				t.Fatalf("%v, want %q", e.found, tt.want)
			}
			for i, want := range tt.want {
				wantFinding(t, e.found[i], want)
			}
		})
	}
}
