package credentialprovider

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/log"
	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
)

// asPlugin makes this program a plugin: its value is what it answers.
const asPlugin = "BURSTLET_TEST_PLUGIN"

func TestMain(m *testing.M) {
	if answer, ok := os.LookupEnv(asPlugin); ok {
		os.Exit(beAPlugin(answer))
	}
	os.Exit(m.Run())
}

// beAPlugin notes what it was asked in the file that is its first argument.
func beAPlugin(answer string) int {
	data, err := io.ReadAll(os.Stdin)
	if err != nil {
		return 3
	}
	file, err := os.OpenFile(os.Args[1], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 3
	}
	if _, err := fmt.Fprintln(file, string(data)); err != nil || file.Close() != nil {
		return 3
	}
	switch answer {
	case "fail":
		if _, err := os.Stderr.WriteString("no route to the cloud\n"); err != nil {
			return 3
		}
		return 1
	case "hang":
		select {}
	case "long":
		answer = strings.Repeat("x", maxAnswer+1)
	}
	var q question
	if err := json.Unmarshal(data, &q); err != nil {
		return 3
	}
	if _, err := os.Stdout.WriteString(strings.ReplaceAll(answer, "TOKEN", q.ServiceAccountToken)); err != nil {
		return 3
	}
	return 0
}

// write writes a configuration with this program as its plugin, and returns its file, the
// directory of plugins and the file of questions.
func write(t *testing.T, answer, cache, more string) (config, bin, asked string) {
	t.Helper()
	dir := t.TempDir()
	config, bin, asked = filepath.Join(dir, "config.yaml"), filepath.Join(dir, "bin"), filepath.Join(dir, "asked")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "cloud")); err != nil {
		t.Fatal(err)
	}
	value, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: cloud
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: ["*.cloud.example", "r.example:5000/team"]
  defaultCacheDuration: %s
  args: [%q]
  env: [{name: %s, value: %s}]
%s`, cache, asked, asPlugin, value, more)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config, bin, asked
}

func answerOf(keyType, more string) string {
	return `{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderResponse","cacheKeyType":"` +
		keyType + `",` + more +
		`"auth":{"*.cloud.example":{"username":"u","password":"secret"},"other.example":{"username":"o","password":"other"}}}`
}

// question is what a plugin is asked.
type question struct {
	APIVersion, Kind, Image, ServiceAccountToken string
	ServiceAccountAnnotations                    map[string]string
}

// questions are the images that the plugin was asked for.
func questions(t *testing.T, file string) (all []string) {
	t.Helper()
	for _, q := range asked(t, file) {
		all = append(all, q.Image)
	}
	return all
}

// asked is what the plugin was asked.
func asked(t *testing.T, file string) (all []question) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var q question
		if err := json.Unmarshal([]byte(line), &q); err != nil || q.APIVersion != "credentialprovider.kubelet.k8s.io/v1" ||
			q.Kind != "CredentialProviderRequest" {
			t.Errorf("question %s: %v", line, err)
		}
		all = append(all, q)
	}
	return all
}

// A plugin is asked for what it is for, and its answer kept as long as it says.
func TestPluginsAreAsked(t *testing.T) {
	const a, b, c = "a.cloud.example/x", "a.cloud.example/y", "b.cloud.example/x"
	for _, tt := range []struct {
		name, answer, cache string
		asked               []string
	}{
		{"by image", answerOf("Image", ""), "1h", []string{a, b, c}},
		{"by registry", answerOf("Registry", ""), "1h", []string{a, c}},
		{"globally", answerOf("Global", ""), "1h", []string{a}},
		{"not kept by default", answerOf("Global", ""), "0s", []string{a, b, a, c}},
		{"not kept, says the plugin", answerOf("Global", `"cacheDuration":"0s",`), "1h", []string{a, b, a, c}},
		{"kept, says the plugin", answerOf("Global", `"cacheDuration":"1h",`), "0s", []string{a}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			config, bin, asked := write(t, tt.answer, tt.cache, "")
			p, err := Read(config, bin, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, image := range []string{a, b, a, c} {
				creds := p.Credentials(t.Context(), aPod("p", ""), image)
				if len(creds) != 1 || creds[0].Username != "u" || creds[0].Password != "secret" || !creds[0].Node ||
					creds[0].Secret != "" {
					t.Errorf("%s: %d logins, not the plugin's one", image, len(creds))
				}
			}
			if creds := p.Credentials(t.Context(), aPod("p", ""), "r.example:5000/others/x"); len(creds) > 0 {
				t.Error("logins for an image that no pattern matches")
			}
			if diff := cmp.Diff(tt.asked, questions(t, asked)); diff != "" {
				t.Errorf("asked for (-want +got):\n%s", diff)
			}
		})
	}
	config, bin, asked := write(t, answerOf("Image", ""), "1h", "")
	p, err := Read(config, bin, nil)
	if err != nil {
		t.Fatal(err)
	}
	if creds := p.Credentials(t.Context(), aPod("p", ""), "r.example:5000/team/x"); len(creds) > 0 ||
		len(questions(t, asked)) != 1 {
		t.Errorf("%d logins for an image that the answer does not cover", len(creds))
	}
}

// A plugin that fails has no logins, is asked again, and nothing of its answer is logged.
func TestPluginsThatFail(t *testing.T) {
	for _, tt := range []struct{ name, answer, want string }{
		{"exits", "fail", "exit status 1: no route to the cloud"},
		{"says too much", "long", "it answered more than 1048576 bytes"},
		{"says nothing", "", "its answer is no CredentialProviderResponse"},
		{"says what is no JSON", "secret", "its answer is no CredentialProviderResponse"},
		{"says more than there is", answerOf("Image", `"password":"secret",`), "its answer is no CredentialProviderResponse"},
		{"says another kind", `{"kind":"Pod","apiVersion":"v1"}`, "not a CredentialProviderResponse of"},
		{
			"says another version", strings.Replace(answerOf("Image", ""), "/v1", "/v1beta1", 1),
			"not a CredentialProviderResponse of",
		},
		{"has no key", answerOf("", ""), errCacheKeyType.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			config, bin, asked := write(t, tt.answer, "1h", "")
			p, err := Read(config, bin, nil)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			logger := logrus.New()
			logger.SetOutput(&out)
			ctx := log.WithLogger(t.Context(), logrus.NewEntry(logger))
			for range 2 {
				if creds := p.Credentials(ctx, aPod("p", ""), "a.cloud.example/x"); len(creds) > 0 {
					t.Errorf("%d logins", len(creds))
				}
			}
			if n := len(questions(t, asked)); n != 2 || !strings.Contains(out.String(), tt.want) ||
				strings.Contains(out.String(), "secret") {
				t.Errorf("asked %d times, logged %s", n, out.String())
			}
		})
	}
}

// A plugin that does not end is ended with the pull that waits for it.
func TestPluginThatHangs(t *testing.T) {
	config, bin, _ := write(t, "hang", "1h", "")
	p, err := Read(config, bin, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if creds := p.Credentials(ctx, aPod("p", ""), "a.cloud.example/x"); len(creds) > 0 {
		t.Errorf("%d logins", len(creds))
	}
}

func TestRead(t *testing.T) {
	const second = `- {name: cloud, apiVersion: v9, defaultCacheDuration: -1s, matchImages: ["https://a"], tokenAttributes: {cacheType: Pod, requireServiceAccount: false, requiredServiceAccountAnnotationKeys: ["a b"], optionalServiceAccountAnnotationKeys: ["a b", "a b"]}}
- {name: a/b, tokenAttributes: {serviceAccountTokenAudience: a}}`
	config, bin, _ := write(t, "", "1h", second)
	_, err := Read(config, bin, nil)
	for _, want := range []string{
		"providers[1].name: Duplicate value", `providers[1].apiVersion: Unsupported value: "v9"`,
		"providers[1].matchImages[0]: Invalid value",
		"providers[1].defaultCacheDuration: Invalid value", "providers[1].tokenAttributes.cacheType: Unsupported value",
		"providers[1].tokenAttributes.serviceAccountTokenAudience: Required value",
		"providers[1].tokenAttributes.requiredServiceAccountAnnotationKeys: Forbidden",
		"providers[1].tokenAttributes.requiredServiceAccountAnnotationKeys[0]: Invalid value",
		"providers[1].tokenAttributes.optionalServiceAccountAnnotationKeys[1]: Duplicate value",
		`providers[1].tokenAttributes: Invalid value: ["a b"]`,
		"providers[2].tokenAttributes.requireServiceAccount: Required value",
		"providers[2].tokenAttributes.cacheType: Required value", "providers[2].name: Invalid value",
		"providers[2].matchImages: Required value", "providers[2].defaultCacheDuration: Required value",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	for name, change := range map[string]func(string) string{
		"unknown field": func(s string) string { return s + "\nmore: 1\n" },
		"another kind":  func(s string) string { return strings.Replace(s, "CredentialProviderConfig", "Pod", 1) },
		"no program":    func(s string) string { return strings.Replace(s, "name: cloud", "name: clouds", 1) },
		"none":          func(s string) string { return s[:strings.Index(s, "providers:")] },
	} {
		config, bin, _ := write(t, "", "1h", "")
		text, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(config, []byte(change(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(config, bin, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	config, bin, _ = write(t, "", "1h", "")
	if p, err := Read(filepath.Dir(config), bin, nil); err != nil || len(p.plugins) != 1 {
		t.Errorf("a directory: %v", err)
	}
	if _, err := Read(bin, bin, nil); err == nil {
		t.Error("a directory without files: no error")
	}
}
