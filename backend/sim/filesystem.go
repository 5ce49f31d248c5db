package sim

import (
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend/sim/shell"
)

// write is one change that a container makes to a file, at an offset from its
// start.
type write struct {
	at time.Duration
	place
	op   shell.Op
	data string
}

// writeCost is what each write takes of shell.MaxWritten beside its data.
const writeCost = 64

// rooted are the directories that an image has.
var rooted = []string{"/", "/bin", "/dev", "/etc", "/home", "/proc", "/root", "/run", "/sys", "/tmp", "/usr", "/var"}

const hostnameFile = "/etc/hostname"

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
	e := c.lookup(name, now)
	return e.Data, e.Kind == shell.File
}

// lookup is what the container sees at a path now.
func (c *container) lookup(name string, now time.Time) shell.Entry {
	at, m := c.locate(name)
	if m != nil {
		return written(m.placement().entry(at.path), at, at.volume.writers, now)
	}
	return written(c.pristine(at), at, []*container{c}, now)
}

// written is what containers have made of an entry until now.
func written(e shell.Entry, at place, writers []*container, now time.Time) shell.Entry {
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
	return replay(e, steps, func(s step) write { return s.write })
}

// replay is what writes make of an entry. The data is copied once, however many
// there are.
func replay[T any](e shell.Entry, steps []T, of func(T) write) shell.Entry {
	if len(steps) == 0 {
		return e
	}
	data := slices.Clone(e.Data)
	for _, s := range steps {
		w := of(s)
		switch w.op {
		case shell.Remove:
			e.Kind, data = shell.Missing, nil
		case shell.MakeDir:
			e.Kind, data = shell.Directory, nil
		case shell.Append:
			e.Kind, data = shell.File, append(data, w.data...)
		case shell.Replace:
			e.Kind, data = shell.File, append(data[:0:0], w.data...)
		}
	}
	e.Data = data
	return e
}

// apply is what one write makes of a file.
func (w write) apply(data []byte, ok bool) ([]byte, bool) {
	e := shell.Entry{Data: data}
	if ok {
		e.Kind = shell.File
	}
	e = replay(e, []write{w}, func(w write) write { return w })
	return e.Data, e.Kind == shell.File
}

// pristine is what is at a path of the container's own layer from the start.
func (c *container) pristine(at place) shell.Entry {
	switch {
	case at.volume != nil:
		return shell.Entry{}
	case at.path == "/dev/null" || at.path == c.terminationPath():
		return shell.Entry{Kind: shell.File}
	case at.path == hostnameFile:
		return shell.Entry{Kind: shell.File, Data: []byte(c.hostname() + "\n")}
	case at.path == "/"+osRelease:
		return shell.Entry{Kind: shell.File, Data: imageFiles(c.image)[osRelease].Data}
	}
	return shell.Entry{}
}

// change is the write to a path that the shell asks for, or what a kernel says
// against it.
func (c *container) change(at time.Duration, name string, op shell.Op, data string) (write, string) {
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
	if w.op != shell.Append {
		c.forget(w, i)
	}
}

// forget drops the container's own writes before the i-th that it supersedes.
func (c *container) forget(w write, i int) {
	kept := c.program.writes[:0:0]
	for j, other := range c.program.writes {
		if j >= i || other.place != w.place {
			kept = append(kept, other)
		}
	}
	c.program.writes = kept
}

// fits is true where the container has room for a write, and for what it does not
// supersede.
func (c *container) fits(w write) bool {
	room := shell.MaxWritten - len(w.data) - writeCost
	for _, other := range c.program.writes {
		if w.op == shell.Append || other.place != w.place {
			room -= len(other.data) + writeCost
		}
	}
	return w.op == shell.Remove || w.path == "/dev/null" || room >= 0
}

// subscribe makes the container's writes seen in the volume.
func (c *container) subscribe(w write) {
	if v := w.volume; v != nil && !slices.Contains(v.writers, c) {
		v.writers = append(v.writers, c)
	}
}

// list returns the names in a directory; false when there is no such directory.
// What is there, lookup says; more are writes that are not kept yet.
func (c *container) list(dir string, lookup func(string) shell.Entry, more []write) ([]string, bool) {
	dir = path.Clean(path.Join("/", dir))
	exists := false
	names := map[string]bool{}
	for _, k := range c.paths(more) {
		if !within(k.path, dir) {
			continue
		}
		kind := lookup(k.path).Kind
		switch {
		case kind == shell.Missing && !k.dir:
		case k.path == dir:
			exists = exists || kind != shell.File
		default:
			exists = true
			first, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(k.path, dir), "/"), "/")
			names[first] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), exists
}

// known is a path that may be there, or surely as a directory.
type known struct {
	path string
	dir  bool
}

// paths are all places where something was placed or written.
func (c *container) paths(more []write) []known {
	out := []known{{path: hostnameFile}, {path: "/" + osRelease}}
	for _, dir := range rooted {
		out = append(out, known{dir, true})
	}
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
