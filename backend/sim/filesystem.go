package sim

import (
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// write is one change that a container makes to a file, at an offset from its
// start.
type write struct {
	at time.Duration
	place
	op   writeOp
	data string
}

type writeOp int

const (
	replace writeOp = iota
	appendTo
	remove
)

// place is where a path of a container leads: into a volume, or to the absolute
// path in the container's own layer.
type place struct {
	volume *volume
	path   string
}

// happened is true when the container came as far as the write by then.
func (c *container) happened(w write, now time.Time) bool {
	if c.started.IsZero() {
		return false
	}
	at := c.started.Add(w.at)
	return !at.After(now) && (c.finished.IsZero() || !at.After(c.finished))
}

// locate says where a path leads, and through which mount, if any.
func (c *container) locate(name string) (place, *mount) {
	if !path.IsAbs(name) {
		name = path.Join("/", c.spec.Container.WorkingDir, name)
	}
	name = path.Clean(name)
	if name == c.terminationPath() {
		return place{path: name}, nil
	}
	var found *mount
	for i := range c.mounts {
		m := &c.mounts[i]
		if within(name, m.path) && (found == nil || len(m.path) > len(found.path)) {
			found = m
		}
	}
	if found == nil {
		return place{path: name}, nil
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(name, found.path), "/")
	return place{found.volume, path.Join(found.subPath, rest)}, found
}

// within is true for a directory and all below it.
func within(name, dir string) bool {
	return name == dir || dir == "/" || strings.HasPrefix(name, dir+"/")
}

// read is the contents of a file as the container sees it now; false when there
// is none.
func (c *container) read(name string, now time.Time) ([]byte, bool) {
	at, m := c.locate(name)
	var data []byte
	ok := at.volume == nil && (at.path == "/dev/null" || at.path == c.terminationPath())
	writers := []*container{c}
	if m != nil {
		file, found := m.placement().files[at.path]
		data, ok, writers = file.Data, found, at.volume.writers
	}
	type step struct {
		at time.Time
		write
	}
	var steps []step
	for _, w := range writers {
		for _, change := range w.program.writes {
			if change.place == at && w.happened(change, now) {
				steps = append(steps, step{w.started.Add(change.at), change})
			}
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return a.at.Compare(b.at) })
	for _, s := range steps {
		data, ok = s.apply(data, ok)
	}
	return data, ok
}

// apply is what the write makes of a file.
func (w write) apply(data []byte, ok bool) ([]byte, bool) {
	switch w.op {
	case remove:
		return nil, false
	case appendTo:
		return append(slices.Clip(data), w.data...), true
	case replace:
		return []byte(w.data), true
	}
	return data, ok
}

// change is the write to a path that the shell asks for, or what a kernel says
// against it.
func (c *container) change(at time.Duration, name string, op writeOp, data string) (write, string) {
	to, m := c.locate(name)
	switch {
	case m != nil && m.readOnly:
		return write{}, "Read-only file system"
	case m == nil && c.readOnlyRoot() && to.path != c.terminationPath() && !within(to.path, "/dev"):
		return write{}, "Read-only file system"
	case to.path == "" || to.path == "/":
		return write{}, "Is a directory"
	}
	return write{at: at, place: to, op: op, data: data}, ""
}

func (c *container) readOnlyRoot() bool {
	sc := c.spec.Container.SecurityContext
	return sc != nil && sc.ReadOnlyRootFilesystem != nil && *sc.ReadOnlyRootFilesystem
}

// keep records what the container's own program or a command in it wrote.
func (c *container) keep(w write) {
	if w.volume == nil && w.path == "/dev/null" {
		return
	}
	writes := c.program.writes
	i := len(writes)
	for i > 0 && writes[i-1].at > w.at {
		i--
	}
	c.program.writes = slices.Insert(writes, i, w)
	c.subscribe(w)
}

// subscribe makes the container's writes seen in the volume.
func (c *container) subscribe(w write) {
	if v := w.volume; v != nil && !slices.Contains(v.writers, c) {
		v.writers = append(v.writers, c)
	}
}

// list returns the names in a directory; false when there is no such directory.
// Whether a file is there, read says; more are writes that are not kept yet.
func (c *container) list(dir string, read func(string) ([]byte, bool), more []write) ([]string, bool) {
	dir = path.Clean(path.Join("/", dir))
	exists := dir == "/" || dir == "/tmp" || dir == "/dev"
	names := map[string]bool{}
	for _, k := range c.paths(more) {
		if !within(k.path, dir) {
			continue
		}
		_, isFile := read(k.path)
		switch {
		case !isFile && !k.mount:
		case k.path == dir:
			exists = exists || !isFile
		default:
			exists = true
			first, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(k.path, dir), "/"), "/")
			names[first] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), exists
}

// known is a path that may be there.
type known struct {
	path  string
	mount bool
}

// paths are all places where something was placed or written.
func (c *container) paths(more []write) []known {
	var out []known
	for i := range c.mounts {
		m := &c.mounts[i]
		out = append(out, known{m.path, true})
		add := func(name string) {
			if rest, ok := strings.CutPrefix("/"+name, path.Join("/", m.subPath)); ok {
				out = append(out, known{path: path.Join(m.path, rest)})
			}
		}
		for name := range m.placement().files {
			add(name)
		}
		writes := more
		for _, other := range m.volume.writers {
			writes = append(slices.Clip(writes), other.program.writes...)
		}
		for _, w := range writes {
			if w.volume == m.volume {
				add(w.path)
			}
		}
	}
	for _, w := range append(slices.Clip(more), c.program.writes...) {
		if w.volume == nil {
			out = append(out, known{path: w.path})
		}
	}
	return out
}
