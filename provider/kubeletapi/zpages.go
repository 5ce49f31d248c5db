package kubeletapi

import (
	"net/http"

	"k8s.io/apiserver/pkg/server/flagz"
	"k8s.io/apiserver/pkg/server/statusz"
	"k8s.io/apiserver/pkg/util/compatibility"
)

// component is what the pages call this server: tools look for a kubelet there.
const component = "kubelet"

// flags are those that /flagz shows.
type flags map[string]string

// GetFlagz implements [flagz.Reader].
func (f flags) GetFlagz() map[string]string { return f }

// zPages adds /flagz and /statusz, in text, JSON and YAML (gates ComponentFlagz and
// ComponentStatusz, which are on from 1.36 on). /statusz names the paths that a kubelet's
// does, of those that are served here.
func (s *Server) zPages(mux *http.ServeMux) {
	paths := []string{"/configz", "/healthz"}
	if s.cfg.Gatherer != nil {
		paths = append(paths, "/metrics")
	}
	if s.cfg.FlagZ != nil {
		flagz.Install(mux, component, flags(s.cfg.FlagZ))
		paths = append(paths, flagz.DefaultFlagzPath)
	}
	statusz.Install(mux, component, statusz.NewRegistry(
		compatibility.DefaultBuildEffectiveVersion(), statusz.WithListedPaths(paths)))
}
