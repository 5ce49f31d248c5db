package images

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	push "github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
)

// counting is a registry without a socket that counts what costs: manifests and blobs.
type counting struct {
	inner http.Handler
	// noHead refuses HEAD, as some registries do; password, if any, is wanted.
	noHead   bool
	password string

	mu          sync.Mutex
	heads, gets int
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	c.serve(w, r.Clone(r.Context()))
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

func (c *counting) serve(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := strings.Contains(r.URL.Path, "/manifests/") || strings.Contains(r.URL.Path, "/blobs/")
	_, password, _ := r.BasicAuth()
	switch {
	case c.password != "" && password != c.password:
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	case counts && r.Method == http.MethodHead && c.noHead:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case counts && r.Method == http.MethodHead:
		c.heads++
	case counts && r.Method == http.MethodGet:
		c.gets++
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	c.inner.ServeHTTP(w, r)
}

// since are the requests since it was asked last.
func (c *counting) since() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := fmt.Sprintf("%d HEAD, %d GET", c.heads, c.gets)
	c.heads, c.gets = 0, 0
	return out
}

// published puts an index for both machines, of a build, at a tag.
func (c *counting) published(t *testing.T, at, build string) name.Digest {
	t.Helper()
	index := v1.ImageIndex(empty.Index)
	for _, arch := range []string{"amd64", "arm64"} {
		image, err := mutate.ConfigFile(
			empty.Image, &v1.ConfigFile{OS: "linux", Architecture: arch, Config: v1.Config{Entrypoint: []string{build}}},
		)
		must(t, err)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	ref, err := name.ParseReference(at)
	must(t, err)
	must(t, push.WriteIndex(ref, index, push.WithTransport(c)))
	digest, err := index.Digest()
	must(t, err)
	c.since()
	return ref.Context().Digest(digest.String())
}

// nodes are the caches of some nodes of one process.
func (c *counting) nodes(t *testing.T, n int) []*Cache {
	t.Helper()
	known := NewKnown()
	var out []*Cache
	for range n {
		r, err := NewRegistries(nil, nil, known)
		must(t, err)
		r.(*registries).client = c
		out = append(out, NewCache(t.Context(), r))
	}
	return out
}

func entrypointOf(t *testing.T, c Configs, image, arch string, logins ...backend.Credential) string {
	t.Helper()
	got, err := c.Config(t.Context(), image, arch, logins)
	must(t, err)
	return strings.Join(got.Entrypoint, " ")
}

const busy = "registry.example/team/app:1"

// A busy tag costs one HEAD in five minutes for all nodes of a process, and GETs when it is
// another image.
func TestABusyTagCostsOneHeadInFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{inner: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
		c.published(t, busy, "first")
		nodes := c.nodes(t, 3)
		wants := func(requests, entrypoint, arch, why string) {
			t.Helper()
			var all sync.WaitGroup
			for i := range 60 {
				all.Go(func() {
					if got := entrypointOf(t, nodes[i%len(nodes)], busy, arch); got != entrypoint {
						t.Errorf("%s: %s", why, got)
					}
				})
			}
			all.Wait()
			if got := c.since(); got != requests {
				t.Errorf("%s: %s, want %s", why, got, requests)
			}
		}
		wants("1 HEAD, 3 GET", "first", "amd64", "a new image") // index, manifest, config
		wants("0 HEAD, 3 GET", "first", "arm64", "for another machine")
		time.Sleep(freshFor - time.Second)
		wants("0 HEAD, 0 GET", "first", "amd64", "within five minutes")
		time.Sleep(time.Second)
		wants("1 HEAD, 0 GET", "first", "amd64", "after five minutes")
		c.published(t, busy, "second")
		wants("0 HEAD, 0 GET", "first", "amd64", "another image, within five minutes")
		time.Sleep(freshFor)
		wants("1 HEAD, 3 GET", "second", "amd64", "another image")
		for range 288 { // a day
			time.Sleep(freshFor)
			entrypointOf(t, nodes[0], busy, "amd64")
		}
		if got := c.since(); got != "288 HEAD, 0 GET" {
			t.Errorf("in a day: %s", got)
		}
	})
}

func TestADigestIsAskedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{inner: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
		digest := c.published(t, busy, "first")
		nodes := c.nodes(t, 2)
		for _, step := range []struct{ image, want string }{
			{digest.String(), "0 HEAD, 3 GET"},
			{digest.String(), "0 HEAD, 0 GET"},
			{busy, "1 HEAD, 0 GET"},
			{"registry.example/team/app:1@" + digest.DigestStr(), "0 HEAD, 0 GET"},
		} {
			for _, node := range nodes {
				entrypointOf(t, node, step.image, "amd64")
				time.Sleep(24 * time.Hour * time.Duration(strings.Count(step.image, "@")))
			}
			if got := c.since(); got != step.want {
				t.Errorf("%s: %s, want %s", step.image, got, step.want)
			}
		}
	})
}

// What one login may see, another need not.
func TestWhatIsKnownIsNotShownToEverybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{inner: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
		digest := c.published(t, busy, "first")
		c.password = "right"
		node := c.nodes(t, 1)[0]
		right, wrong := backend.Credential{Username: "u", Password: "right"}, backend.Credential{
			Username: "u", Password: "wrong",
		}
		for _, image := range []string{busy, digest.String()} {
			entrypointOf(t, node, image, "amd64", wrong, right)
			c.since()
			entrypointOf(t, node, image, "amd64", wrong, right)
			if got := c.since(); got != "0 HEAD, 0 GET" {
				t.Errorf("the same logins again: %s", got)
			}
			if _, err := node.Config(t.Context(), image, "amd64", []backend.Credential{wrong}); err == nil ||
				!strings.Contains(err.Error(), "pull access denied") {
				t.Errorf("%s with another login: %v", image, err)
			}
			entrypointOf(t, node, image, "amd64", right)
			if got := c.since(); got != "1 HEAD, 0 GET" {
				t.Errorf("%s with the right one alone: %s", image, got)
			}
		}
	})
}

func TestARegistryWithoutHeadIsAskedByGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{inner: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
		c.published(t, busy, "first")
		c.noHead = true
		node := c.nodes(t, 1)[0]
		for _, want := range []string{"0 HEAD, 4 GET", "0 HEAD, 1 GET"} {
			entrypointOf(t, node, busy, "amd64")
			if got := c.since(); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			time.Sleep(freshFor)
		}
	})
}

// What fails is asked for again, and who gives up waits for nobody.
func TestKnownForgetsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, asks := NewKnown(), 0
		fails := func() (string, error) { asks++; return "", errNoSuchImage }
		for range 2 {
			if _, err := k.resolve(t.Context(), "a", false, fails); err == nil {
				t.Error("no error")
			}
		}
		if asks != 2 {
			t.Errorf("asked %d times", asks)
		}
		slow, release := make(chan error, 1), make(chan struct{})
		go func() {
			_, err := k.resolve(t.Context(), "a", false, func() (string, error) { <-release; return "d", nil })
			slow <- err
		}()
		synctest.Wait()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := k.resolve(gone, "a", false, fails); err != gone.Err() { //nolint:errorlint // itself
			t.Errorf("%v", err)
		}
		close(release)
		must(t, <-slow)
		for i := range maxImages + 5 {
			k.keep(fmt.Sprint(i), "amd64", taskdef.ImageConfig{})
			_, err := k.resolve(t.Context(), fmt.Sprint(i), true, func() (string, error) { return "d", nil })
			must(t, err)
		}
		if len(k.tags) > maxImages || len(k.configs) > maxImages {
			t.Errorf("%d tags, %d images", len(k.tags), len(k.configs))
		}
	})
}
