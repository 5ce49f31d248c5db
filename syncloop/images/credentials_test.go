package images

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/backend"
)

func secret(name, auths string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{` + auths + `}}`)},
	}
}

// entry is a login whose user says where it is from.
func entry(address string) string {
	return fmt.Sprintf(`%q:{"username":%q,"password":"p"}`, address, address)
}

func podWith(secrets ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}
	for _, s := range secrets {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: s})
	}
	return pod
}

func users(creds []backend.Credential) []string {
	var out []string
	for _, c := range creds {
		out = append(out, c.Username)
	}
	return out
}

// TestWhichLoginServes: the kubelet's keyring matches registries and paths.
func TestWhichLoginServes(t *testing.T) {
	for _, tt := range []struct {
		name, image string
		addresses   []string
		want        []string
	}{
		{"host", "reg.test/a", []string{"reg.test", "other.test"}, []string{"reg.test"}},
		{"scheme and slash", "reg.test/a", []string{"https://reg.test/"}, []string{"https://reg.test/"}},
		{"version of the API", "reg.test/a", []string{"https://reg.test/v2/"}, []string{"https://reg.test/v2/"}},
		{"port", "reg.test:5000/a", []string{"reg.test", "reg.test:5000"}, []string{"reg.test:5000"}},
		{"port that the image has not", "reg.test/a", []string{"reg.test:5000"}, nil},
		{"longest path first", "reg.test/a/b/c", []string{"reg.test", "reg.test/a/b", "reg.test/a", "reg.test/x"}, []string{
			"reg.test/a/b", "reg.test/a", "reg.test",
		}},
		{
			"glob in a part", "reg.eu.test/a",
			[]string{"*.eu.test", "*.test", "reg.*.test"},
			[]string{"reg.*.test", "*.eu.test"},
		},
		{"glob does not span parts", "a.b.test/x", []string{"*.test"}, nil},
		{"malformed glob", "reg.test/a", []string{"reg.te[t", "reg.test"}, []string{"reg.test"}},
		{"docker hub", "nginx", []string{"https://index.docker.io/v1/"}, []string{"https://index.docker.io/v1/"}},
		{
			"docker hub, a team's", "team/app:v1",
			[]string{"https://index.docker.io/v1/"},
			[]string{"https://index.docker.io/v1/"},
		},
		{
			"docker hub by its new name is preferred", "docker.io/team/app",
			[]string{"https://index.docker.io/v1/", "docker.io"},
			[]string{"docker.io"},
		},
		{"docker hub's is for no other", "reg.test/a", []string{"https://index.docker.io/v1/"}, nil},
		{"digest", "reg.test/a@sha256:" + strings.Repeat("0", 64), []string{"reg.test/a"}, []string{"reg.test/a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var entries []string
			for _, a := range tt.addresses {
				entries = append(entries, entry(a))
			}
			creds, err := Credentials(podWith("s"), []*corev1.Secret{secret("s", strings.Join(entries, ","))}, tt.image)
			if tt.name != "malformed glob" && err != nil {
				t.Error(err)
			}
			if !slices.Equal(users(creds), tt.want) {
				t.Errorf("%v, want %v", users(creds), tt.want)
			}
		})
	}
}

// TestFormsOfLogins: both kinds of secrets, and every way to write a login.
func TestFormsOfLogins(t *testing.T) {
	padded := base64.StdEncoding.EncodeToString([]byte("user:pass:word"))
	for _, tt := range []struct {
		name, login string
		want        backend.Credential
	}{
		{"user and password", `{"username":"user","password":"pw"}`, backend.Credential{Username: "user", Password: "pw"}},
		{"auth", `{"auth":"` + padded + `"}`, backend.Credential{Username: "user", Password: "pass:word"}},
		{"auth without padding", `{"auth":"` + strings.TrimRight(padded, "=") + `"}`, backend.Credential{
			Username: "user", Password: "pass:word",
		}},
		{"auth goes before user and password", `{"username":"x","password":"y","auth":"` + padded + `"}`, backend.Credential{
			Username: "user", Password: "pass:word",
		}},
		{
			"identity token, beside the user that docker writes",
			`{"auth":"` + base64.StdEncoding.EncodeToString([]byte("00000000:")) + `","identitytoken":"tok"}`,
			backend.Credential{IdentityToken: "tok"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.Registry, tt.want.Secret = "reg.test", "ns/s/"
			old := secret("s", "")
			old.Type = corev1.SecretTypeDockercfg
			old.Data = map[string][]byte{corev1.DockerConfigKey: []byte(`{"reg.test":` + tt.login + `}`)}
			for _, s := range []*corev1.Secret{secret("s", `"reg.test":`+tt.login), old} {
				creds, err := Credentials(podWith("s"), []*corev1.Secret{s}, "reg.test/a")
				if err != nil || !slices.Equal(creds, []backend.Credential{tt.want}) {
					t.Errorf("%s: %d logins, %v", s.Type, len(creds), err)
				}
			}
		})
	}
}

// TestSecretsInThePodsOrder: all logins that match are tried, each once, and
// only those of secrets that the pod names.
func TestSecretsInThePodsOrder(t *testing.T) {
	login := func(user string) string { return `"reg.test":{"username":"` + user + `","password":"p"}` }
	stranger := secret("b", login("stranger"))
	stranger.Namespace = "elsewhere"
	secrets := []*corev1.Secret{
		stranger, secret("a", login("ann")), secret("b", login("bob")), secret("c", login("cat")), secret("d", login("ann")),
	}
	creds, err := Credentials(podWith("b", "", "missing", "a", "d"), secrets, "reg.test/x")
	if err != nil || !slices.Equal(users(creds), []string{"bob", "ann"}) {
		t.Errorf("%v, %v", users(creds), err)
	}
}

// TestMalformedSecretsAreNamed: without a word of their contents, and the others
// are used.
func TestMalformedSecretsAreNamed(t *testing.T) {
	opaque := secret("bad", entry("reg.test"))
	opaque.Type = corev1.SecretTypeOpaque
	noJSON := secret("bad", "")
	noJSON.Data[corev1.DockerConfigJsonKey] = []byte(`hunter2`)
	for name, bad := range map[string]*corev1.Secret{
		"no JSON": noJSON, "another type": opaque,
		"auth is not base64": secret("bad", `"reg.test":{"auth":"hunter2!"}`),
		"auth has no colon":  secret("bad", `"reg.test":{"auth":"`+base64.StdEncoding.EncodeToString([]byte("hunter2"))+`"}`),
		"a number":           secret("bad", `"reg.test":{"password":2}`),
		"address":            secret("bad", `"hunter2:%zz":{"password":"hunter2"}`),
	} {
		creds, err := Credentials(
			podWith("bad", "good"), []*corev1.Secret{bad, secret("good", entry("reg.test"))}, "reg.test/a",
		)
		if err == nil || !strings.Contains(err.Error(), `"bad"`) || strings.Contains(err.Error(), "hunter2") ||
			strings.Contains(err.Error(), "aHVu") {
			t.Errorf("%s: error %v", name, err)
		}
		if !slices.Equal(users(creds), []string{"reg.test"}) {
			t.Errorf("%s: the other secret gives %v", name, users(creds))
		}
	}
	if _, err := Credentials(podWith(), nil, "Nginx"); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("an image name that cannot be: %v", err)
	}
}
