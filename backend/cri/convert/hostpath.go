package convert

import (
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fields"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// allowedPath is a path of the host that pods may mount. No link may lead out of within;
// empty: the path is mounted by its name.
type allowedPath struct {
	path, within string
	// readOnly forbids to make what is missing.
	readOnly bool
}

// allowedHostPath judges the path of a volume by the configuration, the path of a
// PersistentVolume too; writable is how it is mounted. Errors: Unsupported.
func (n Converter) allowedHostPath(volume, source string, writable bool) (allowedPath, error) {
	if n.cfg.HostPaths == nil {
		return allowedPath{path: source}, nil
	}
	allowed, ok := n.cfg.AllowedHostPath(source, writable)
	if !ok {
		if _, ok := n.cfg.AllowedHostPath(source, false); ok {
			return allowedPath{}, backend.Errorf(backend.ErrUnsupported, "volume %q: pods.hostPaths of the node's "+
				"configuration lets pods "+
				"only read %s: mount it with readOnly", volume, source)
		}
		return allowedPath{}, backend.Errorf(
			backend.ErrUnsupported, "volume %q: %s", volume, fields.NotAllowed(source, n.cfg),
		)
	}
	out := allowedPath{path: path.Clean(source), readOnly: allowed.ReadOnly}
	if !allowed.Whole(out.path) {
		out.within = allowed.PathPrefix
	}
	return out, nil
}

// HostSource is a hostPath volume with the check that its type asks for. What pods may
// only read is not made for them.
func (n Converter) HostSource(volume string, h *corev1.HostPathVolumeSource) (host.Source, error) {
	allowed, err := n.allowedHostPath(volume, h.Path, true)
	if err != nil {
		allowed, err = n.allowedHostPath(volume, h.Path, false)
	}
	if err != nil {
		return host.Source{}, err
	}
	source := host.Source{Path: allowed.path, Within: allowed.within}
	if h.Type != nil {
		source.Type = string(*h.Type)
	}
	if allowed.readOnly {
		source.Type = strings.TrimSuffix(source.Type, "OrCreate")
	}
	return source, nil
}
