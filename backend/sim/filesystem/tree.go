package filesystem

import (
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend/sim/shell"
)

// Write is one change that a container makes to a file, at an offset from its
// start.
type Write struct {
	At time.Duration
	Place
	Op   shell.Op
	Data string
}

// writeCost is what each write takes of shell.MaxWritten beside its data.
const writeCost = 64

// rooted are the directories that an image has.
var rooted = []string{"/", "/bin", "/dev", "/etc", "/home", "/proc", "/root", "/run", "/sys", "/tmp", "/usr", "/var"}

const hostnameFile = "/etc/hostname"

// Place is where a path of a container leads: into a volume, or to the absolute
// path in the container's own layer.
type Place struct {
	Volume *Volume
	Path   string
}

// Writer is a container that writes to files while it runs.
type Writer interface {
	// Writes are all its changes, past and future, in order.
	Writes() []Write
	// Ran returns when it started and ended; zero if not yet.
	Ran() (started, finished time.Time)
}

// Tree is what one container sees of files.
type Tree struct {
	Writer
	// Dir is where relative paths begin.
	Dir, Hostname, TerminationPath string
	// Image is the whole name of its image.
	Image        string
	ReadOnlyRoot bool
	Mounts       []Mount
}

// Happened is true when its container came as far as the write by then.
func (w Write) Happened(by Writer, now time.Time) bool {
	started, finished := by.Ran()
	if started.IsZero() {
		return false
	}
	at := started.Add(w.At)
	return !at.After(now) && (finished.IsZero() || !at.After(finished))
}

// Locate says where a path leads, and through which mount, if any.
func (t *Tree) Locate(name string) (Place, *Mount) {
	if !path.IsAbs(name) {
		name = path.Join("/", t.Dir, name)
	}
	name = path.Clean(name)
	if name == t.TerminationPath {
		return Place{Path: name}, nil
	}
	var found *Mount
	for i := range t.Mounts {
		m := &t.Mounts[i]
		if within(name, m.path) && (found == nil || len(m.path) > len(found.path)) {
			found = m
		}
	}
	if found == nil {
		return Place{Path: name}, nil
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(name, found.path), "/")
	return Place{found.Volume, path.Join(found.subPath, rest)}, found
}

// within is true for a directory and all below it.
func within(name, dir string) bool {
	return name == dir || dir == "/" || strings.HasPrefix(name, dir+"/")
}

// Read is the contents of a file as the container sees it now; false when there
// is none.
func (t *Tree) Read(name string, now time.Time) ([]byte, bool) {
	e := t.Lookup(name, now)
	return e.Data, e.Kind == shell.File
}

// Lookup is what the container sees at a path now.
func (t *Tree) Lookup(name string, now time.Time) shell.Entry {
	at, m := t.Locate(name)
	if m != nil {
		return written(m.placement().entry(at.Path), at, at.Volume.writers, now)
	}
	return written(t.pristine(at), at, []Writer{t.Writer}, now)
}

// written is what containers have made of an entry until now.
func written(e shell.Entry, at Place, writers []Writer, now time.Time) shell.Entry {
	type step struct {
		at time.Time
		Write
	}
	var steps []step
	for _, w := range writers {
		started, _ := w.Ran()
		for _, change := range w.Writes() {
			if change.Place == at && change.Happened(w, now) {
				steps = append(steps, step{started.Add(change.At), change})
			}
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return a.at.Compare(b.at) })
	return Replay(e, steps, func(s step) Write { return s.Write })
}

// Replay is what writes make of an entry. The data is copied once, however many
// there are.
func Replay[T any](e shell.Entry, steps []T, of func(T) Write) shell.Entry {
	if len(steps) == 0 {
		return e
	}
	data := slices.Clone(e.Data)
	for _, s := range steps {
		w := of(s)
		switch w.Op {
		case shell.Remove:
			e.Kind, data = shell.Missing, nil
		case shell.MakeDir:
			e.Kind, data = shell.Directory, nil
		case shell.Append:
			e.Kind, data = shell.File, append(data, w.Data...)
		case shell.Replace:
			e.Kind, data = shell.File, append(data[:0:0], w.Data...)
		}
	}
	e.Data = data
	return e
}

// Apply is what one write makes of a file.
func (w Write) Apply(data []byte, ok bool) ([]byte, bool) {
	e := shell.Entry{Data: data}
	if ok {
		e.Kind = shell.File
	}
	e = Replay(e, []Write{w}, func(w Write) Write { return w })
	return e.Data, e.Kind == shell.File
}

// pristine is what is at a path of the container's own layer from the start.
func (t *Tree) pristine(at Place) shell.Entry {
	switch {
	case at.Volume != nil:
		return shell.Entry{}
	case at.Path == "/dev/null" || at.Path == t.TerminationPath:
		return shell.Entry{Kind: shell.File}
	case at.Path == hostnameFile:
		return shell.Entry{Kind: shell.File, Data: []byte(t.Hostname + "\n")}
	case at.Path == "/"+osRelease:
		return shell.Entry{Kind: shell.File, Data: imageFiles(t.Image)[osRelease].Data}
	}
	return shell.Entry{}
}

// Change is the write to a path that the shell asks for, or what a kernel says
// against it.
func (t *Tree) Change(at time.Duration, name string, op shell.Op, data string) (Write, string) {
	to, m := t.Locate(name)
	switch {
	case m != nil && m.readOnly:
		return Write{}, "Read-only file system"
	case m == nil && t.ReadOnlyRoot && to.Path != t.TerminationPath && !within(to.Path, "/dev"):
		return Write{}, "Read-only file system"
	case to.Path == "" || to.Path == "/":
		return Write{}, "Is a directory"
	}
	return Write{At: at, Place: to, Op: op, Data: data}, ""
}

// Keep adds to what a container wrote, in order, and drops what is superseded. What
// goes nowhere is not kept.
func Keep(writes []Write, w Write) []Write {
	if w.Volume == nil && w.Path == "/dev/null" {
		return writes
	}
	i := len(writes)
	for i > 0 && writes[i-1].At > w.At {
		i--
	}
	writes = slices.Insert(writes, i, w)
	if w.Op != shell.Append {
		return forget(writes, w, i)
	}
	return writes
}

// forget drops the writes before the i-th that it supersedes.
func forget(writes []Write, w Write, i int) []Write {
	kept := writes[:0:0]
	for j, other := range writes {
		if j >= i || other.Place != w.Place {
			kept = append(kept, other)
		}
	}
	return kept
}

// Fits is true where a container that wrote so much has room for a write, and for what it
// does not supersede.
func (w Write) Fits(writes []Write) bool {
	room := shell.MaxWritten - len(w.Data) - writeCost
	for _, other := range writes {
		if w.Op == shell.Append || other.Place != w.Place {
			room -= len(other.Data) + writeCost
		}
	}
	return w.Op == shell.Remove || w.Path == "/dev/null" || room >= 0
}

// Subscribe makes a container's writes seen in the volume that this one goes to.
func (w Write) Subscribe(by Writer) {
	if v := w.Volume; v != nil && !slices.Contains(v.writers, by) {
		v.writers = append(v.writers, by)
	}
}

// List returns the names in a directory; false when there is no such directory.
// What is there, lookup says; more are writes that are not kept yet.
func (t *Tree) List(dir string, lookup func(string) shell.Entry, more []Write) ([]string, bool) {
	dir = path.Clean(path.Join("/", dir))
	exists := false
	names := map[string]bool{}
	for _, k := range t.paths(more) {
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
func (t *Tree) paths(more []Write) []known {
	out := []known{{path: hostnameFile}, {path: "/" + osRelease}}
	for _, dir := range rooted {
		out = append(out, known{dir, true})
	}
	for i := range t.Mounts {
		m := &t.Mounts[i]
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
		for _, other := range m.Volume.writers {
			writes = append(slices.Clip(writes), other.Writes()...)
		}
		for _, w := range writes {
			if w.Volume == m.Volume {
				add(w.Path)
			}
		}
	}
	for _, w := range append(slices.Clip(more), t.Writes()...) {
		if w.Volume == nil {
			out = append(out, known{path: w.Path})
		}
	}
	return out
}
