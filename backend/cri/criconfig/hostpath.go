package criconfig

import (
	"path"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// HostPath is a path of the host that pods may mount, with all that is below it.
type HostPath struct {
	PathPrefix string
	// ReadOnly lets pods mount it only with readOnly.
	ReadOnly bool
}

// Below is where a clean path is below the prefix, "." for the prefix itself; false: it
// is not in it. Steps are compared, not letters: /foobar is not in /foo.
func (h HostPath) Below(p string) (rest string, ok bool) {
	if p == h.PathPrefix {
		return ".", true
	}
	return strings.CutPrefix(p, strings.TrimSuffix(h.PathPrefix, "/")+"/")
}

// Whole is true where a path can be mounted by its name: it is the prefix itself, which
// is the administrator's, or links cannot lead out of the prefix.
func (h HostPath) Whole(p string) bool { return h.PathPrefix == "/" || p == h.PathPrefix }

// AllowedHostPath is the first of HostPaths that lets pods mount a path, the path itself
// before others; writable is how they mount it. False: none does. It is only asked where
// HostPaths is not nil.
func (c Config) AllowedHostPath(p string, writable bool) (HostPath, bool) {
	var found HostPath
	if !path.IsAbs(p) {
		return found, false
	}
	p, ok := path.Clean(p), false
	for _, h := range c.HostPaths {
		if _, in := h.Below(p); !in || h.ReadOnly && writable {
			continue
		}
		if h.Whole(p) {
			return h, true
		}
		if !ok {
			found, ok = h, true
		}
	}
	return found, ok
}

// HostPathErrors judges pods.hostPaths of a file; at is where it stands.
func HostPathErrors(at *field.Path, paths []HostPath) field.ErrorList {
	var errs field.ErrorList
	for i, h := range paths {
		if p := h.PathPrefix; !filepath.IsAbs(p) || filepath.Clean(p) != p {
			errs = append(errs, field.Invalid(at.Index(i).Child("pathPrefix"), p, "must be an absolute path without . or .."))
		}
	}
	return errs
}
