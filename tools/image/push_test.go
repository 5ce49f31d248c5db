package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/burstlet/burstlet/test/parts/registry"
)

const password = "only-this-registry-knows"

// privateRegistry serves one in plain HTTP on loopback that wants a password, and
// logs this user in or not.
func privateRegistry(t *testing.T, loggedIn bool) (host string) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Private{User: "me", Password: password}))
	t.Cleanup(server.Close)
	host = strings.TrimPrefix(server.URL, "http://")
	dir := t.TempDir()
	config := `{}`
	if loggedIn {
		config = fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, host, base64.StdEncoding.EncodeToString([]byte("me:"+password)))
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DOCKER_CONFIG", dir)
	return host
}

func TestPushedIsWhatTheArchiveHolds(t *testing.T) {
	host := privateRegistry(t, true)
	refs := []string{host + "/team/burstlet:v1.2.3", host + "/team/burstlet:latest"}
	path, told := made(t, options{push: refs}, testRelease())
	index, _ := inner(t, unpacked(t, path))
	for _, ref := range refs {
		parsed, err := name.ParseReference(ref)
		if err != nil {
			t.Fatal(err)
		}
		auth := &authn.Basic{Username: "me", Password: password}
		pulled, err := remote.Index(parsed, remote.WithAuth(auth), remote.WithContext(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		if digestOf(t, pulled) != digestOf(t, index) {
			t.Errorf("%s is another than the archive's", ref)
		}
		if err := validate.Index(pulled); err != nil {
			t.Error(err)
		}
		if got := slices.Sorted(maps.Keys(imagesOf(t, pulled))); !slices.Equal(got, both) {
			t.Errorf("platforms %q", got)
		}
		if want := "pushed " + ref + "@" + digestOf(t, index) + "\n"; !strings.Contains(told, want) {
			t.Errorf("it told %q", told)
		}
	}
}

func TestARefusedPushNamesTheImageAndNotThePassword(t *testing.T) {
	host := privateRegistry(t, false)
	var out bytes.Buffer
	o := options{push: []string{host + "/burstlet:v1"}, version: "v1", platforms: both}
	err := o.run(t.Context(), &out, testRelease(), fakeBuild)
	wantError(t, err, "push "+host+"/burstlet-task:v1: ")
	wantError(t, err, "401")
	if strings.Contains(err.Error()+out.String(), password) || strings.Contains(out.String(), "pushed") {
		t.Errorf("%s; %v", out.String(), err)
	}
}

func TestAPushEndsWithItsContext(t *testing.T) {
	host := privateRegistry(t, true)
	indexes, err := buildIndexes(t.Context(), testRelease(), both, fakeBuild, mainKind)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tag, err := name.NewTag(host + "/burstlet:v1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = push(ctx, indexes[0], tag)
	wantError(t, err, "context canceled")
}
