package local

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mountPoint is one line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
type mountPoint struct {
	id, parent int
	// device is major:minor, root the directory of its file system that is mounted.
	device, root string
	path         string
	// options are the mount's own, superOptions its file system's.
	options, superOptions []string
	// shared is true where mounts and unmounts below reach others (shared:N).
	shared bool
	fstype string
}

// nfs is true for a mount that may hang with its server.
func (m mountPoint) nfs() bool { return strings.HasPrefix(m.fstype, "nfs") }

// option is the value of a file system's option, as in size=64k.
func (m mountPoint) option(name string) (string, bool) {
	for _, o := range m.superOptions {
		if key, value, _ := strings.Cut(o, "="); key == name {
			return value, true
		}
	}
	return "", false
}

// mountTable is what is mounted, in the order of the kernel's: of two on one path
// the later hides the earlier.
type mountTable []mountPoint

// mounts reads what is mounted, without touching what is mounted.
func (h *Host) mounts() (mountTable, error) {
	data, err := os.ReadFile(filepath.Join(h.opts.ProcRoot, "self/mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	return parseMounts(data)
}

func parseMounts(data []byte) (mountTable, error) {
	var table mountTable
	for line := range bytes.Lines(data) {
		m, ok := parseMount(string(line))
		if !ok {
			return nil, fmt.Errorf("read mounts: unknown line %q", line)
		}
		table = append(table, m)
	}
	return table, nil
}

// parseMount takes a line: id parent major:minor root path options tags... -
// fstype source superoptions.
func parseMount(line string) (mountPoint, bool) {
	fields := strings.Fields(line)
	end := slices.Index(fields, "-")
	if end < 6 || len(fields) < end+3 {
		return mountPoint{}, false
	}
	id, err := strconv.Atoi(fields[0])
	if err != nil {
		return mountPoint{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return mountPoint{}, false
	}
	m := mountPoint{
		id: id, parent: parent, device: fields[2], root: unescapeMount(fields[3]), path: unescapeMount(fields[4]),
		options: strings.Split(fields[5], ","),
		fstype:  fields[end+1],
	}
	for _, tag := range fields[6:end] {
		m.shared = m.shared || strings.HasPrefix(tag, "shared:")
	}
	// An empty source leaves one field less.
	if len(fields) > end+2 {
		m.superOptions = strings.Split(fields[len(fields)-1], ",")
	}
	return m, true
}

// unescapeMount undoes the kernel's octal escapes of white space and backslash.
func unescapeMount(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// at is the mount that is seen at a path.
func (t mountTable) at(path string) (mountPoint, bool) {
	for _, m := range slices.Backward(t) {
		if m.path == path {
			return m, true
		}
	}
	return mountPoint{}, false
}

// below are the mounts at and below a path, in the order in which they can be
// unmounted: deepest first, the last made first.
func (t mountTable) below(path string) mountTable {
	var out mountTable
	for _, m := range slices.Backward(t) {
		if within(m.path, path) {
			out = append(out, m)
		}
	}
	slices.SortStableFunc(out, func(a, b mountPoint) int {
		return strings.Count(b.path, "/") - strings.Count(a.path, "/")
	})
	return out
}

// within is true for base itself and for what is below it. Both are clean.
func within(path, base string) bool {
	return path == base || base == "/" || strings.HasPrefix(path, base+"/")
}

// bounded gives up a step that the kernel may hold forever (a file server that is
// gone): it returns when ctx ends, and the step is left to the kernel.
func bounded(ctx context.Context, what string, step func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	done := make(chan error, 1)
	go func() { done <- step() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
}
