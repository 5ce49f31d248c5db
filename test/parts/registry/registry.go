package registry

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	store "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Private is a part of a registry that wants credentials.
type Private struct {
	// Prefix starts the names of its repositories; empty means all of them.
	Prefix string
	// User and Password open it.
	User, Password string
}

// Registry holds images. It may be used by many goroutines.
type Registry struct {
	store   http.Handler
	private []Private

	mu    sync.Mutex
	pulls map[string]int
}

// New makes an empty registry that anyone may read, but for its private parts.
func New(private ...Private) *Registry {
	return &Registry{
		store:   store.New(store.Logger(log.New(io.Discard, "", 0))),
		private: private,
		pulls:   map[string]int{},
	}
}

// Push puts an image under full names with tags; their domain is not looked at.
func (r *Registry) Push(image v1.Image, refs ...string) error {
	layers, err := image.Layers()
	if err != nil {
		return fmt.Errorf("read image: %w", err)
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return fmt.Errorf("read image: %w", err)
	}
	for _, ref := range refs {
		tag, err := name.NewTag(ref, name.StrictValidation)
		if err != nil {
			return fmt.Errorf("parse image name %q: %w", ref, err)
		}
		repository := tag.RepositoryStr()
		if err := r.upload(repository, bytes.NewReader(config)); err != nil {
			return err
		}
		for _, layer := range layers {
			blob, err := layer.Compressed()
			if err != nil {
				return fmt.Errorf("read image layer: %w", err)
			}
			if err := r.upload(repository, blob); err != nil {
				return err
			}
		}
		if err := r.putManifest(repository, tag.TagStr(), image); err != nil {
			return err
		}
	}
	return nil
}

func (r *Registry) putManifest(repository, tag string, image v1.Image) error {
	manifest, err := image.RawManifest()
	if err != nil {
		return fmt.Errorf("read image manifest: %w", err)
	}
	mediaType, err := image.MediaType()
	if err != nil {
		return fmt.Errorf("read image manifest: %w", err)
	}
	return r.put(http.MethodPut, "/v2/"+repository+"/manifests/"+tag, string(mediaType), manifest)
}

func (r *Registry) upload(repository string, blob io.Reader) error {
	content, err := io.ReadAll(blob)
	if err != nil {
		return fmt.Errorf("read image: %w", err)
	}
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(content))
	return r.put(http.MethodPost, "/v2/"+repository+"/blobs/uploads/?digest="+digest, "application/octet-stream", content)
}

// put stores one thing as the distribution API wants it, past the guard.
func (r *Registry) put(method, path, contentType string, body []byte) error {
	request := httptest.NewRequest(method, path, bytes.NewReader(body))
	request.Header.Set("Content-Type", contentType)
	reply := httptest.NewRecorder()
	r.store.ServeHTTP(reply, request)
	if reply.Code != http.StatusCreated {
		return fmt.Errorf("%s %s: %d %s", method, path, reply.Code, reply.Body)
	}
	return nil
}

// Pulls counts how often a manifest of a repository ("busybox") was read: once
// or twice for each pull, however many layers it has.
func (r *Registry) Pulls(repository string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pulls[repository]
}

// ServeHTTP implements [http.Handler].
func (r *Registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if !r.allowed(request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	if repository, _, found := strings.Cut(strings.TrimPrefix(request.URL.Path, "/v2/"), "/manifests/"); found {
		r.mu.Lock()
		r.pulls[repository]++
		r.mu.Unlock()
	}
	r.store.ServeHTTP(w, request)
}

// allowed says whether a request is for nothing private, or has its credentials.
func (r *Registry) allowed(request *http.Request) bool {
	user, password, _ := request.BasicAuth()
	for _, p := range r.private {
		if !strings.HasPrefix(request.URL.Path, "/v2/"+p.Prefix) {
			continue
		}
		if subtle.ConstantTimeCompare([]byte(user), []byte(p.User))&subtle.ConstantTimeCompare(
			[]byte(password), []byte(p.Password),
		) != 1 {
			return false
		}
	}
	return true
}
