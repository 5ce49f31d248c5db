package sim

import (
	"time"

	"github.com/burstlet/burstlet/backend/sim/filesystem"
	"github.com/burstlet/burstlet/backend/sim/shell"
)

// Writes are those of its program, and of commands in it.
func (c *container) Writes() []filesystem.Write { return c.program.writes }

// Ran implements [filesystem.Writer].
func (c *container) Ran() (started, finished time.Time) { return c.started, c.finished }

// tree is what the container sees of files.
func (c *container) tree() *filesystem.Tree {
	return &filesystem.Tree{
		Writer: c, Dir: c.spec.Container.WorkingDir, Hostname: c.hostname(), TerminationPath: c.terminationPath(),
		Image: normalize(c.image), ReadOnlyRoot: c.readOnlyRoot(), Mounts: c.mounts,
	}
}

func (c *container) readOnlyRoot() bool {
	sc := c.spec.Container.SecurityContext
	return sc != nil && sc.ReadOnlyRootFilesystem != nil && *sc.ReadOnlyRootFilesystem
}

// lookup is what the container sees at a path now.
func (c *container) lookup(name string, now time.Time) shell.Entry { return c.tree().Lookup(name, now) }

// keep records what the container's own program or a command in it wrote.
func (c *container) keep(w filesystem.Write) {
	c.program.writes = filesystem.Keep(c.program.writes, w)
	w.Subscribe(c)
}
