package registry

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/random"
)

func get(r *Registry, path, user, password string) int {
	request := httptest.NewRequest(http.MethodGet, path, nil)
	if user != "" {
		request.SetBasicAuth(user, password)
	}
	reply := httptest.NewRecorder()
	r.ServeHTTP(reply, request)
	return reply.Code
}

func TestPrivatePartsWantCredentials(t *testing.T) {
	image, err := random.Image(64, 1)
	if err != nil {
		t.Fatal(err)
	}
	r := New(Private{Prefix: "private/", User: "puller", Password: "open"})
	if err := r.Push(image, "registry.test/app:1", "registry.test/private/app:1"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path, user, password string
		want                 int
	}{
		"public":  {path: "/v2/app/manifests/1", want: http.StatusOK},
		"missing": {path: "/v2/other/manifests/1", want: http.StatusNotFound},
		"private": {path: "/v2/private/app/manifests/1", want: http.StatusUnauthorized},
		"private, wrong password": {
			path: "/v2/private/app/manifests/1", user: "puller", password: "no", want: http.StatusUnauthorized,
		},
		"private, wrong user": {
			path: "/v2/private/app/manifests/1", user: "other", password: "open", want: http.StatusUnauthorized,
		},
		"private, with credentials": {
			path: "/v2/private/app/manifests/1", user: "puller", password: "open", want: http.StatusOK,
		},
		"public, with credentials": {path: "/v2/app/manifests/1", user: "puller", password: "open", want: http.StatusOK},
	} {
		if got := get(r, c.path, c.user, c.password); got != c.want {
			t.Errorf("%s: status %d, want %d", name, got, c.want)
		}
	}
	if got := r.Pulls("private/app"); got != 1 {
		t.Errorf("%d pulls of the private image counted, want 1: refused ones are none", got)
	}
}

func TestWholeRegistryPrivate(t *testing.T) {
	r := New(Private{User: "puller", Password: "open"})
	if got := get(r, "/v2/", "", ""); got != http.StatusUnauthorized {
		t.Errorf("status %d, want %d", got, http.StatusUnauthorized)
	}
	if got := get(r, "/v2/", "puller", "open"); got != http.StatusOK {
		t.Errorf("with credentials: status %d, want %d", got, http.StatusOK)
	}
}

func TestPushRefuses(t *testing.T) {
	image, err := random.Image(64, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := New().Push(image, "not a name"); err == nil {
		t.Error("an image without a valid name was pushed")
	}
}
