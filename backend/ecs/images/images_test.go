package images

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	push "github.com/google/go-containerregistry/pkg/v1/remote"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/ecstest"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
)

// shelf is ImageConfigs that counts, and fails for images whose name says so.
type shelf struct {
	asked atomic.Int32
	takes time.Duration
	image taskdef.ImageConfig
}

var errNoSuchImage = errors.New(`failed to resolve reference "registry.example/missing:1": not found`)

func (s *shelf) Config(ctx context.Context, image, _ string, _ []backend.Credential) (taskdef.ImageConfig, error) {
	s.asked.Add(1)
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return taskdef.ImageConfig{}, ctx.Err()
	}
	if strings.Contains(image, "missing") {
		return taskdef.ImageConfig{}, errNoSuchImage
	}
	return s.image, nil
}

// A launch is held by an image that must be known and is not, by one whose user is
// not allowed, and by nothing else of images.
func TestLookUp(t *testing.T) {
	const at = `(pod: "a_ns(uid-of-a)", container: app)`
	nonRoot := func(p *corev1.Pod) { p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true)} }
	user := func(id int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: &id} }
	}
	image := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers[0].Image = name }
	}
	command := func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"run"} }
	for name, tc := range map[string]struct {
		image         taskdef.ImageConfig
		pod           []func(*corev1.Pod)
		reason, error string
	}{
		"all is known":    {image: taskdef.ImageConfig{Cmd: []string{"c"}}},
		"it runs nothing": {reason: "CreateContainerError", error: "no command specified"},
		"it is not there": {
			pod: []func(*corev1.Pod){image("registry.example/missing:1")}, reason: "ErrImagePull", error: errNoSuchImage.Error(),
		},
		"and nobody asks": {pod: []func(*corev1.Pod){image("registry.example/missing:1"), command, user(1)}},
		"its name is none": {
			pod: []func(*corev1.Pod){image("X!")}, reason: "InvalidImageName", error: `Failed to apply default image tag "X!"`,
		},
		"kubelet: image is root's": {
			pod: []func(*corev1.Pod){command, nonRoot}, reason: "CreateContainerConfigError",
			error: "container has runAsNonRoot and image will run as root " + at,
		},
		"kubelet: image's user is 0": {
			image: taskdef.ImageConfig{User: "0:5"}, pod: []func(*corev1.Pod){command, nonRoot},
			reason: "CreateContainerConfigError", error: "image will run as root",
		},
		"kubelet: image's user is no": {
			image: taskdef.ImageConfig{User: "www:www"}, pod: []func(*corev1.Pod){command, nonRoot},
			reason: "CreateContainerConfigError",
			error:  "container has runAsNonRoot and image has non-numeric user (www), cannot verify user is non-root " + at,
		},
		"kubelet: runAsUser 0": {
			pod: []func(*corev1.Pod){command, nonRoot, user(0)}, reason: "CreateContainerConfigError",
			error: "container's runAsUser breaks non-root policy " + at,
		},
		"image's user is 7": {image: taskdef.ImageConfig{User: "7"}, pod: []func(*corev1.Pod){command, nonRoot}},
		"runAsUser is 7":    {pod: []func(*corev1.Pod){command, nonRoot, user(7)}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := ecstest.Pod("a")
			for _, change := range tc.pod {
				change(pod)
			}
			_, err := LookUp(
				t.Context(), taskdef.Config{TaskImage: "registry.example/burstlet:1"}, &shelf{image: tc.image},
				ecstest.Spec(pod, 0),
			)
			var got *backend.ContainerError
			switch {
			case tc.reason == "" && err != nil:
				t.Error(err)
			case tc.reason != "" && (!errors.As(err, &got) || got.Reason != tc.reason || got.Container != "app" ||
				!strings.Contains(err.Error(), tc.error)):
				t.Errorf("%+v: %v, want %s: %s", got, err, tc.reason, tc.error)
			}
		})
	}
	if got, err := LookUp(t.Context(), taskdef.Config{}, nil, ecstest.Spec(ecstest.Pod("a"), 0)); got != nil ||
		err != nil {
		t.Errorf("without a supervisor: %v, %v", got, err)
	}
}

// An image is asked for once, however many want it, again after a while, and never
// again by its digest.
func TestImagesAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{takes: time.Second}
		c := NewCache(t.Context(), s)
		ask := func(image string, logins ...backend.Credential) error {
			_, err := c.Config(t.Context(), image, "amd64", logins)
			return err
		}
		done := make(chan error)
		for range 100 {
			go func() { done <- ask("i:1") }()
		}
		for range 100 {
			must(t, <-done)
		}
		asked := func(want int32, why string) {
			t.Helper()
			if n := s.asked.Swap(0); n != want {
				t.Errorf("%s: asked %d times, want %d", why, n, want)
			}
		}
		asked(1, "a hundred at once")
		must(t, ask("i:1", backend.Credential{Username: "u"}))
		asked(1, "another login")
		time.Sleep(freshFor)
		must(t, ask("i:1"))
		asked(1, "a while later")
		digest := "i@sha256:" + strings.Repeat("a", 64)
		must(t, ask(digest))
		time.Sleep(24 * time.Hour)
		must(t, ask(digest))
		asked(1, "by digest")
		for range 3 {
			if err := ask("missing:1"); !errors.Is(err, errNoSuchImage) {
				t.Error(err)
			}
		}
		asked(1, "one that is not there")
		time.Sleep(failedFor)
		if err := ask("missing:1"); err == nil {
			t.Error("it is there")
		}
		asked(1, "that again")
		for i := range maxImages + 5 {
			must(t, ask(fmt.Sprint("many:", i)))
		}
		if n := len(c.entries); n > maxImages {
			t.Errorf("%d are remembered", n)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Config(gone, "later:1", "amd64", nil); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait()
		time.Sleep(2 * time.Second)
		s.asked.Store(0)
		must(t, ask("later:1"))
		asked(0, "a look-up goes on without its caller")
	})
}

// A look-up goes on without its caller, but not without the cache.
func TestLookUpsEndWithTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{takes: 10 * time.Second}
		c := NewCache(t.Context(), s)
		waiting := make(chan error)
		for i := range 2 * lookups { // half of them wait for their turn
			go func() {
				_, err := c.Config(t.Context(), fmt.Sprint("i:", i), "amd64", nil)
				waiting <- err
			}()
		}
		synctest.Wait()
		life, end := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- c.Run(life) }()
		begun := time.Now()
		end()
		for range 2 * lookups {
			if err := <-waiting; !errors.Is(err, errEnded) {
				t.Errorf("a look-up ended with %v", err)
			}
		}
		if err := <-ran; err != nil || time.Since(begun) != 0 {
			t.Errorf("Run returned %v after %s", err, time.Since(begun))
		}
		_, err := LookUp(t.Context(), taskdef.Config{TaskImage: "t:1"}, c, ecstest.Spec(ecstest.Pod("a"), 0))
		if !errors.Is(err, backend.ErrThrottled) || s.asked.Load() != lookups {
			t.Errorf("a launch afterwards: %v, asked %d times", err, s.asked.Load())
		}
	})
}

// What is asked of a registry: by a mirror, for the machine, with each login in turn.
func TestRegistries(t *testing.T) {
	inner := registry.New()
	password := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, p, _ := r.BasicAuth(); password != "" && p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	defer server.Close()
	index := v1.ImageIndex(empty.Index)
	for _, arch := range []string{"amd64", "arm64"} {
		image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: arch, Config: v1.Config{
			Entrypoint: []string{"/" + arch}, Cmd: []string{"c"}, User: "7", Env: []string{"HOME=/h"}, StopSignal: "SIGQUIT",
		}})
		must(t, err)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/team/app:1")
	must(t, err)
	must(t, push.WriteIndex(ref, index))

	r, err := NewRegistries(map[string]string{"registry.example": server.URL}, nil, nil)
	must(t, err)
	look := func(image, arch string, logins ...backend.Credential) (taskdef.ImageConfig, error) {
		return r.Config(t.Context(), image, arch, logins)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		got, err := look("registry.example/team/app:1", arch)
		must(t, err)
		want := taskdef.ImageConfig{
			Entrypoint: []string{"/" + arch}, Cmd: []string{"c"}, User: "7", Env: []string{"HOME=/h"}, StopSignal: "SIGQUIT",
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
	if _, err := look("registry.example/team/app:2", "amd64"); err == nil ||
		!strings.HasSuffix(err.Error(), "registry.example/team/app:2: not found") {
		t.Errorf("a tag that is not there: %v", err)
	}
	password = "right-" + ecstest.Canary
	wrong := backend.Credential{Username: "u", Password: "wrong-" + ecstest.Canary}
	_, err = look("registry.example/team/app:1", "amd64", wrong)
	if err == nil || !strings.Contains(err.Error(), "pull access denied") ||
		strings.Contains(err.Error(), ecstest.Canary) {
		t.Errorf("a wrong login: %v", err)
	}
	if _, err = look(
		"registry.example/team/app:1", "amd64", wrong, backend.Credential{Username: "u", Password: password},
	); err != nil {
		t.Errorf("the second login: %v", err)
	}
	server.Close()
	if _, err := look("registry.example/team/app:3", "amd64"); err == nil || strings.Contains(err.Error(), "http://") {
		t.Errorf("a registry that is away: %v", err)
	}
}

func TestMirrorsAreURLs(t *testing.T) {
	for _, endpoint := range []string{"ftp://x", "https://x/path", "https://u:p@x", "https://"} {
		if _, err := NewRegistries(map[string]string{"h": endpoint}, nil, nil); err == nil ||
			strings.Contains(err.Error(), "u:p") {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}
