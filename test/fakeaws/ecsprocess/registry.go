package ecsprocess

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/burstlet/burstlet/test/parts/registry"
)

// registryHeaderTimeout bounds how long a client of a registry may take to ask.
const registryHeaderTimeout = time.Minute

// Registry serves images: burstlet looks up there what they run by default, and as
// whom. What is pulled there is for [Config.Registries] to say.
type Registry struct {
	// Port is on the loopback of this machine, at least.
	Port int

	domains []string
	server  *http.Server
}

// ServeImages serves images, by their full names, at a free port of an address;
// 0.0.0.0 is for registries that hosts of containers reach as well. Parts of it may
// want credentials.
func ServeImages(address string, all map[string]v1.Image, private ...registry.Private) (*Registry, error) {
	store, domains := registry.New(private...), map[string]bool{}
	for ref, image := range all {
		tag, err := name.NewTag(ref, name.StrictValidation)
		if err != nil {
			return nil, fmt.Errorf("serve image %q: %w", ref, err)
		}
		if err := store.Push(image, ref); err != nil {
			return nil, err
		}
		domains[tag.RegistryStr()] = true
	}
	listener, err := net.Listen("tcp4", net.JoinHostPort(address, "0"))
	if err != nil {
		return nil, fmt.Errorf("serve images: %w", err)
	}
	r := &Registry{
		Port:    listener.Addr().(*net.TCPAddr).Port,
		domains: slices.Sorted(maps.Keys(domains)),
		server:  &http.Server{Handler: store, ReadHeaderTimeout: registryHeaderTimeout},
	}
	// Its end by itself would show: images are not found.
	go func() { _ = r.server.Serve(listener) }()
	return r, nil
}

// Mirrors is member registryMirrors of backend.ecs in burstlet's configuration: the
// registries of the images are this one.
func (r *Registry) Mirrors() string {
	var all []string
	for _, domain := range r.domains {
		all = append(all, fmt.Sprintf("%q: %q", domain, r.URL()))
	}
	return "registryMirrors: {" + strings.Join(all, ", ") + "}"
}

// URL is where the registry is on this machine.
func (r *Registry) URL() string { return fmt.Sprintf("http://127.0.0.1:%d", r.Port) }

// Close ends it.
func (r *Registry) Close() error {
	if err := r.server.Close(); err != nil {
		return fmt.Errorf("close registry: %w", err)
	}
	return nil
}

// Unpacked is an image of which there is only the configuration: enough to look up
// where no container runs.
func Unpacked(config v1.Config) (v1.Image, error) {
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		Architecture: "amd64", OS: "linux", Config: config, RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	return image, nil
}
