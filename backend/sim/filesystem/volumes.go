package filesystem

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim/shell"
)

// Volume is one volume of a pod. Its owner guards it.
type Volume struct {
	Ref      backend.Ref
	Name     string
	readOnly bool
	// Local is true for one that takes the host's disk (kubelet:
	// IsLocalEphemeralVolume).
	Local bool
	Now   *Placement
	// writers are the containers that wrote or will write to it.
	writers []Writer
}

// Placement is the contents of a volume from one swap to the next. It never
// changes.
type Placement struct {
	At    time.Time
	Hash  string
	files map[string]backend.File
}

// entry is what stands at a path of it, before containers write.
func (p *Placement) entry(name string) shell.Entry {
	file, found := p.files[name]
	if !found {
		return shell.Entry{}
	}
	return shell.Entry{Kind: shell.File, Data: file.Data}
}

// NewVolume is a volume of the pod that ref names.
func NewVolume(ref backend.Ref, spec backend.VolumeSpec, now time.Time) *Volume {
	v := &Volume{Ref: ref, Name: spec.Name}
	v.Ref.Attempt, v.Ref.ID = 0, ""
	v.Swap(spec, now)
	return v
}

// Swap makes the volume what spec says.
func (v *Volume) Swap(spec backend.VolumeSpec, now time.Time) {
	v.readOnly = spec.ReadOnly || hasContents(spec.Source)
	v.Local = spec.Source.ConfigMap != nil ||
		spec.Source.EmptyDir != nil && spec.Source.EmptyDir.Medium == corev1.StorageMediumDefault
	v.Now = newPlacement(spec, now)
}

// Lookup is what containers have made of what stands at a path until now.
func (v *Volume) Lookup(name string, now time.Time) shell.Entry {
	return written(v.Now.entry(name), Place{v, name}, v.writers, now)
}

// Holds is true for a directory that is there because of what is in it.
func (v *Volume) Holds(dir string, now time.Time) bool {
	if dir == "." {
		return true
	}
	below := func(name string) bool {
		return strings.HasPrefix(name, dir+"/") && v.Lookup(name, now).Kind != shell.Missing
	}
	for name := range v.Now.files {
		if below(name) {
			return true
		}
	}
	for _, c := range v.writers {
		for _, w := range c.Writes() {
			if w.Volume == v && below(w.Path) {
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

func newPlacement(spec backend.VolumeSpec, now time.Time) *Placement {
	p := &Placement{At: now, Hash: spec.Hash}
	if len(spec.Files) > 0 {
		p.files = make(map[string]backend.File, len(spec.Files))
	}
	for _, f := range spec.Files {
		f.Data = slices.Clone(f.Data)
		p.files[f.Path] = f
	}
	return p
}

// Sorted is a copy of the files in the order of their paths.
func (p *Placement) Sorted() []backend.File {
	out := make([]backend.File, 0, len(p.files))
	for _, f := range p.files {
		f.Data = slices.Clone(f.Data)
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b backend.File) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// Check finds what no remote could place.
func Check(spec backend.VolumeSpec) error {
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

// Mount is a volume as one container sees it.
type Mount struct {
	path, subPath string
	Volume        *Volume
	readOnly      bool
	// fixed is what a subPath shows: the contents at the container's start, not
	// those swapped in later, as a bind mount does.
	fixed *Placement
}

func (m *Mount) placement() *Placement {
	if m.fixed != nil {
		return m.fixed
	}
	return m.Volume.Now
}

// Mounts finds the volumes that a container mounts among those of its pod. whole is the
// whole name of an image.
func Mounts(
	spec backend.ContainerSpec, volumes map[string]*Volume, whole func(image string) string,
) ([]Mount, error) {
	var out []Mount
	for _, m := range spec.Container.VolumeMounts {
		if m.SubPathExpr != "" {
			return nil, backend.Errorf(backend.ErrInvalid, "subPathExpr of the mount at %q is not expanded", m.MountPath)
		}
		v := volumes[m.Name]
		if source := backend.ImageVolumeOf(spec.Pod, m.Name); source != nil {
			v = &Volume{Name: m.Name, readOnly: true, Now: &Placement{files: imageFiles(whole(source.Reference))}}
			if err := isDirectory(v.Now.files, m.SubPath); err != nil {
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
		one := Mount{path: path.Clean("/" + m.MountPath), subPath: m.SubPath, Volume: v, readOnly: m.ReadOnly || v.readOnly}
		if m.SubPath != "" {
			one.subPath, one.fixed = path.Clean(m.SubPath), v.Now
		}
		out = append(out, one)
	}
	return out, nil
}

// osRelease is the file by which simulated images differ.
const osRelease = "etc/os-release"

// imageFiles are what an image has: its whole name, in one file.
func imageFiles(image string) map[string]backend.File {
	return map[string]backend.File{
		osRelease: {Path: osRelease, Data: []byte("ID=sim\nPRETTY_NAME=\"" + image + "\"\n"), Mode: 0o644},
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

// Size is that of the files that were placed and written, and how many they are.
func (v *Volume) Size(now time.Time) (bytes, files uint64) {
	type step struct {
		at time.Time
		Write
	}
	written := map[string][]step{}
	for _, c := range v.writers {
		started, _ := c.Ran()
		for _, w := range c.Writes() {
			if w.Volume == v && w.Happened(c, now) {
				written[w.Path] = append(written[w.Path], step{started.Add(w.At), w})
			}
		}
	}
	for path, file := range v.Now.files {
		if written[path] == nil {
			bytes += uint64(len(file.Data))
			files++
		}
	}
	for path, steps := range written {
		slices.SortStableFunc(steps, func(a, b step) int { return a.at.Compare(b.at) })
		var e shell.Entry
		if file, placed := v.Now.files[path]; placed {
			e = shell.Entry{Kind: shell.File, Data: file.Data}
		}
		if e = Replay(e, steps, func(s step) Write { return s.Write }); e.Kind == shell.File {
			bytes += uint64(len(e.Data))
			files++
		}
	}
	return bytes, files
}
