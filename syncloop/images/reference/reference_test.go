package reference

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	for image, want := range map[string]string{
		"nginx":                                "docker.io/library/nginx:latest",
		"a":                                    "docker.io/library/a:latest",
		"nginx:1.27":                           "docker.io/library/nginx:1.27",
		"team/app":                             "docker.io/team/app:latest",
		"index.docker.io/nginx":                "docker.io/library/nginx:latest",
		"docker.io/nginx":                      "docker.io/library/nginx:latest",
		"localhost/x":                          "localhost/x:latest",
		"reg.test":                             "docker.io/library/reg.test:latest",
		"reg.test/a":                           "reg.test/a:latest",
		"reg.test:5000/a/b:v1":                 "reg.test:5000/a/b:v1",
		"[::1]:5000/a":                         "[::1]:5000/a:latest",
		"Team/app":                             "Team/app:latest",
		"reg.test/a@" + digest:                 "reg.test/a@" + digest,
		"reg.test/a:v1@" + digest:              "reg.test/a:v1@" + digest,
		"a__b/c--d.e:V_1":                      "docker.io/a__b/c--d.e:V_1",
		"reg.test/" + strings.Repeat("x", 255): "reg.test/" + strings.Repeat("x", 255) + ":latest",
	} {
		if ref, err := Parse(image); err != nil || ref.String() != want {
			t.Errorf("%q is %q, want %q (%v)", image, ref, want, err)
		}
	}
	for _, image := range []string{
		"", " ", "nginx:", "nginx@", "Nginx", "reg.test/Nginx", "a b", "/a", "a/", "a//b", "-a", "a_-b", "a:b:c",
		"reg.test:port/a", "a@sha256:abc", "a@md5:" + strings.Repeat("ab", 16), "a:" + strings.Repeat("t", 129),
		"reg.test/" + strings.Repeat("x", 256), strings.Repeat("ab", 32), "a@sha256:" + strings.Repeat("AB", 32),
		"https://reg.test/a",
	} {
		if ref, err := Parse(image); err == nil {
			t.Errorf("%q is taken for %q", image, ref)
		}
	}
}
