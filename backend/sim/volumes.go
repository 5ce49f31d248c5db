package sim

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim/shell"
)

// volumeKey names the volumes of one pod of one node.
type volumeKey struct {
	node string
	uid  types.UID
}

// volume is one volume of a pod. Guarded by Remote.mu.
type volume struct {
	ref      backend.Ref
	name     string
	readOnly bool
	// local is true for one that takes the host's disk (kubelet:
	// IsLocalEphemeralVolume).
	local bool
	now   *placement
	// writers are the containers that wrote or will write to it.
	writers []*container
}

// placement is the contents of a volume from one swap to the next. It never
// changes.
type placement struct {
	at    time.Time
	hash  string
	files map[string]backend.File
}

// entry is what stands at a path of it, before containers write.
func (p *placement) entry(name string) shell.Entry {
	file, found := p.files[name]
	if !found {
		return shell.Entry{}
	}
	return shell.Entry{Kind: shell.File, Data: file.Data}
}

func newVolume(ref backend.Ref, spec backend.VolumeSpec, now time.Time) *volume {
	v := &volume{ref: ref, name: spec.Name}
	v.ref.Attempt, v.ref.ID = 0, ""
	v.swap(spec, now)
	return v
}

// swap makes the volume what spec says.
func (v *volume) swap(spec backend.VolumeSpec, now time.Time) {
	v.readOnly = spec.ReadOnly || hasContents(spec.Source)
	v.local = spec.Source.ConfigMap != nil ||
		spec.Source.EmptyDir != nil && spec.Source.EmptyDir.Medium == corev1.StorageMediumDefault
	v.now = newPlacement(spec, now)
}

// lookup is what containers have made of what stands at a path until now.
func (v *volume) lookup(name string, now time.Time) shell.Entry {
	return written(v.now.entry(name), place{v, name}, v.writers, now)
}

// holds is true for a directory that is there because of what is in it.
func (v *volume) holds(dir string, now time.Time) bool {
	if dir == "." {
		return true
	}
	below := func(name string) bool {
		return strings.HasPrefix(name, dir+"/") && v.lookup(name, now).Kind != shell.Missing
	}
	for name := range v.now.files {
		if below(name) {
			return true
		}
	}
	for _, c := range v.writers {
		for _, w := range c.program.writes {
			if w.volume == v && below(w.path) {
				return true
			}
		}
	}
	return false
}

// hasContents is true for the kinds of volumes that nobody but us writes.
func hasContents(s corev1.VolumeSource) bool {
	return s.ConfigMap != nil || s.Secret != nil || s.Projected != nil || s.DownwardAPI != nil
}

func newPlacement(spec backend.VolumeSpec, now time.Time) *placement {
	p := &placement{at: now, hash: spec.Hash}
	if len(spec.Files) > 0 {
		p.files = make(map[string]backend.File, len(spec.Files))
	}
	for _, f := range spec.Files {
		f.Data = slices.Clone(f.Data)
		p.files[f.Path] = f
	}
	return p
}

// sorted is a copy of the files in the order of their paths.
func (p *placement) sorted() []backend.File {
	out := make([]backend.File, 0, len(p.files))
	for _, f := range p.files {
		f.Data = slices.Clone(f.Data)
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b backend.File) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// checkVolume finds what no remote could place.
func checkVolume(spec backend.VolumeSpec) error {
	if spec.Name == "" {
		return backend.Errorf(backend.ErrInvalid, "a volume has no name")
	}
	for i, f := range spec.Files {
		if f.Path == "." || path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || f.Path == ".." ||
			strings.HasPrefix(f.Path, "../") {
			return backend.Errorf(backend.ErrInvalid, "volume %q: %q is not a clean relative path", spec.Name, f.Path)
		}
		for _, other := range spec.Files[:i] {
			if other.Path == f.Path || strings.HasPrefix(f.Path, other.Path+"/") || strings.HasPrefix(other.Path, f.Path+"/") {
				return backend.Errorf(
					backend.ErrInvalid, "volume %q: %q and %q cannot both be files", spec.Name, other.Path, f.Path,
				)
			}
		}
	}
	return nil
}

// mount is a volume as one container sees it.
type mount struct {
	path, subPath string
	volume        *volume
	readOnly      bool
	// fixed is what a subPath shows: the contents at the container's start, not
	// those swapped in later, as a bind mount does.
	fixed *placement
}

func (m *mount) placement() *placement {
	if m.fixed != nil {
		return m.fixed
	}
	return m.volume.now
}

// mounts finds the volumes that a container mounts among those of its pod.
func mounts(spec backend.ContainerSpec, volumes map[string]*volume) ([]mount, error) {
	var out []mount
	for _, m := range spec.Container.VolumeMounts {
		if m.SubPathExpr != "" {
			return nil, backend.Errorf(backend.ErrInvalid, "subPathExpr of the mount at %q is not expanded", m.MountPath)
		}
		v := volumes[m.Name]
		if source := backend.ImageVolumeOf(spec.Pod, m.Name); source != nil {
			v = &volume{name: m.Name, readOnly: true, now: &placement{files: imageFiles(source.Reference)}}
			if err := isDirectory(v.now.files, m.SubPath); err != nil {
				return nil, fmt.Errorf(
					"ImageVolumeMountFailed: failed to ensure image subpath %q in %q: %w", m.SubPath, source.Reference, err,
				)
			}
		}
		if v == nil {
			return nil, fmt.Errorf(
				"failed to generate container %q spec: volume %q is not placed: no such file or directory", spec.Container.Name,
				m.Name,
			)
		}
		one := mount{path: path.Clean("/" + m.MountPath), subPath: m.SubPath, volume: v, readOnly: m.ReadOnly || v.readOnly}
		if m.SubPath != "" {
			one.subPath, one.fixed = path.Clean(m.SubPath), v.now
		}
		out = append(out, one)
	}
	return out, nil
}

// osRelease is the file by which simulated images differ.
const osRelease = "etc/os-release"

// imageFiles are what an image has: its own name, in one file.
func imageFiles(image string) map[string]backend.File {
	return map[string]backend.File{
		osRelease: {Path: osRelease, Data: []byte("ID=sim\nPRETTY_NAME=\"" + normalize(image) + "\"\n"), Mode: 0o644},
	}
}

// isDirectory is nil for a directory among the files of an image; runtimes mount nothing
// else of one.
func isDirectory(files map[string]backend.File, dir string) error {
	dir = path.Clean(dir)
	if dir == "." {
		return nil
	}
	for name := range files {
		switch {
		case name == dir:
			return fmt.Errorf("only directory subpath is supported")
		case strings.HasPrefix(name, dir+"/"):
			return nil
		}
	}
	return fmt.Errorf("openat %s: no such file or directory", dir)
}
