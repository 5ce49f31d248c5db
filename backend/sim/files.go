package sim

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim/filesystem"
	"github.com/burstlet/burstlet/backend/sim/shell"
)

// filesView lends backend.Files.
type filesView struct{ *view }

// Place makes the volume, or swaps in other contents.
func (v filesView) Place(ctx context.Context, spec backend.VolumeSpec) error {
	if spec.Pod == nil || spec.Pod.UID == "" {
		return backend.Errorf(backend.ErrInvalid, "place volume %q: a pod with a UID is required", spec.Name)
	}
	op := fmt.Sprintf("place volume %q of pod %s", spec.Name, spec.Pod.UID)
	if err := v.request(ctx, op); err != nil {
		return err
	}
	if err := filesystem.Check(spec); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	v.place(spec)
	return v.reply(ctx, op)
}

func (v filesView) place(spec backend.VolumeSpec) {
	now := v.lock()
	defer v.mu.Unlock()
	ref := backend.Ref{UID: spec.Pod.UID, Namespace: spec.Pod.Namespace, Name: spec.Pod.Name}
	key := volumeKey{v.node, ref.UID}
	of := v.volumes[key]
	if of == nil {
		of = map[string]*filesystem.Volume{}
		v.volumes[key] = of
	}
	there := of[spec.Name]
	switch {
	case there == nil:
		there = filesystem.NewVolume(ref, spec, now)
		of[spec.Name] = there
	case there.Now.Hash == spec.Hash:
		return
	default:
		there.Swap(spec, now)
	}
	v.audit.placed(there, now)
}

// Clear forgets the pod's volumes once no container uses them.
func (v filesView) Clear(ctx context.Context, ref backend.Ref) error {
	op := fmt.Sprintf("clear volumes of pod %s", ref.UID)
	if err := v.request(ctx, op); err != nil {
		return err
	}
	if err := v.clear(ref); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return v.reply(ctx, op)
}

func (v filesView) clear(ref backend.Ref) error {
	now := v.lock()
	defer v.mu.Unlock()
	key := volumeKey{v.node, ref.UID}
	of := v.volumes[key]
	if of == nil {
		return backend.Errorf(backend.ErrNotFound, "no volume is placed")
	}
	for _, a := range v.pods[ref.UID] {
		for _, c := range a.containers {
			if len(c.mounts) > 0 && a.node == v.node && c.runs(a, now) {
				return fmt.Errorf("unmount %q: device or resource busy: container %s runs", c.mounts[0].Volume.Name, c.name)
			}
		}
	}
	delete(v.volumes, key)
	v.audit.add(Event{At: now, Kind: Cleared, Pod: anyOf(of).Ref})
	return nil
}

func anyOf(of map[string]*filesystem.Volume) *filesystem.Volume {
	for _, v := range of {
		return v
	}
	return nil
}

// Volumes lists by pod and volume.
func (v filesView) Volumes(ctx context.Context) ([]backend.VolumeFacts, error) {
	if err := v.request(ctx, "list volumes"); err != nil {
		return nil, err
	}
	out := v.list()
	if err := v.reply(ctx, "list volumes"); err != nil {
		return nil, err
	}
	return out, nil
}

func (v filesView) list() []backend.VolumeFacts {
	now := v.lock()
	defer v.mu.Unlock()
	out := make([]backend.VolumeFacts, 0, len(v.volumes))
	for key, of := range v.volumes {
		if key.node != v.node {
			continue
		}
		for _, vol := range of {
			out = append(out, backend.VolumeFacts{
				Pod: vol.Ref, Name: vol.Name, Hash: vol.Now.Hash, PlacedAt: shown(vol.Now.At, now),
			})
		}
	}
	slices.SortFunc(out, func(a, b backend.VolumeFacts) int {
		if c := strings.Compare(string(a.Pod.UID), string(b.Pod.UID)); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}

// volumesOf are those that an attempt's containers may mount.
func (v *view) volumesOf(a *attempt) map[string]*filesystem.Volume {
	if a.volumes != nil {
		return a.volumes
	}
	return v.volumes[volumeKey{v.node, a.ref.UID}]
}

// carried are the volumes that came with a launch.
func carried(spec backend.LaunchSpec, now time.Time) (map[string]*filesystem.Volume, error) {
	out := make(map[string]*filesystem.Volume, len(spec.Volumes))
	for _, s := range spec.Volumes {
		if err := filesystem.Check(s); err != nil {
			return nil, err
		}
		out[s.Name] = filesystem.NewVolume(spec.Ref(), s, now)
	}
	return out, nil
}

// Placement is the contents that a volume had from At on.
type Placement struct {
	At   time.Time
	Hash string
	// Files are sorted by path.
	Files []backend.File
}

// Volume returns what a volume of a pod holds now, however it came there; false
// when it is not there. What containers wrote is not in it.
func (r *Remote) Volume(uid types.UID, name string) (Placement, bool) {
	r.lock()
	defer r.mu.Unlock()
	var found *filesystem.Volume
	for key, of := range r.volumes {
		if key.uid == uid && of[name] != nil {
			found = of[name]
		}
	}
	for _, a := range r.pods[uid] {
		if a.volumes[name] != nil {
			found = a.volumes[name] // the newest attempt's
		}
	}
	if found == nil {
		return Placement{}, false
	}
	return contentsOf(found.Now), true
}

// Placements returns all contents that a volume ever had, in order, also after
// it was cleared. Only with Config.Record.
func (r *Remote) Placements(uid types.UID, name string) []Placement {
	r.lock()
	defer r.mu.Unlock()
	var out []Placement
	for _, p := range r.audit.placements[VolumeKey{uid, name}] {
		out = append(out, contentsOf(p))
	}
	return out
}

// contentsOf shows a placement.
func contentsOf(p *filesystem.Placement) Placement {
	return Placement{At: p.At.Round(0), Hash: p.Hash, Files: p.Sorted()}
}

// Read returns a file of a volume as its containers see it now.
func (v filesView) Read(ctx context.Context, file backend.VolumeFile) ([]byte, error) {
	op := fmt.Sprintf("read %s of pod %s", file, file.Pod.UID)
	if err := v.request(ctx, op); err != nil {
		return nil, err
	}
	data, err := v.read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return data, v.reply(ctx, op)
}

func (v filesView) read(file backend.VolumeFile) ([]byte, error) {
	now := v.lock()
	defer v.mu.Unlock()
	of := v.volumes[volumeKey{v.node, file.Pod.UID}][file.Volume]
	if of == nil {
		return nil, backend.Errorf(backend.ErrNotFound, "the volume is not placed")
	}
	name := path.Clean(file.Path)
	e := of.Lookup(name, now)
	switch {
	case e.Kind == shell.Missing && !of.Holds(name, now):
		return nil, backend.Errorf(backend.ErrNotFound, "no such file")
	case e.Kind != shell.File:
		return nil, backend.Errorf(backend.ErrInvalid, "it is no regular file")
	case len(e.Data) > backend.MaxReadFile:
		return nil, backend.Errorf(backend.ErrInvalid, "it is larger than %d bytes", backend.MaxReadFile)
	}
	return e.Data, nil
}

// volumeKey names the volumes of one pod of one node.
type volumeKey struct {
	node string
	uid  types.UID
}
