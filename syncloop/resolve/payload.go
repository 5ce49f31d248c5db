package resolve

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/burstlet/burstlet/backend"
)

const (
	maxPathLength     = 4096
	maxFileNameLength = 255
)

// payload is a volume's files by path; their own Path is not set yet.
type payload map[string]backend.File

// sorted are the files with clean paths. It refuses what no directory can hold;
// the kubelet does so when it writes.
func (p payload) sorted() ([]backend.File, error) {
	clean := make(payload, len(p))
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if err := checkPath(name); err != nil {
			return nil, err
		}
		clean[path.Clean(name)] = p[name]
	}
	out := make([]backend.File, 0, len(clean))
	for _, name := range slices.Sorted(maps.Keys(clean)) {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, taken := clean[dir]; taken {
				return nil, fmt.Errorf("invalid path: %s is a file, %s needs it to be a directory", dir, name)
			}
		}
		file := clean[name]
		file.Path = name
		out = append(out, file)
	}
	return out, nil
}

// checkPath says what the kubelet's atomic writer says of a path. Names that
// begin with ".." are its own, and those of the swapped directories.
func checkPath(name string) error {
	parts := strings.Split(name, "/")
	tooLong := func(part string) bool { return len(part) > maxFileNameLength }
	switch {
	case name == "":
		return fmt.Errorf("invalid path: must not be empty: %q", name)
	case path.IsAbs(name):
		return fmt.Errorf("invalid path: must be relative path: %s", name)
	case len(name) > maxPathLength:
		return fmt.Errorf("invalid path: must be less than or equal to %d characters", maxPathLength)
	case slices.Contains(parts, ".."):
		return fmt.Errorf("invalid path: must not contain '..': %s", name)
	case slices.ContainsFunc(parts, tooLong):
		return fmt.Errorf("invalid path: filenames must be less than or equal to %d characters", maxFileNameLength)
	case strings.HasPrefix(parts[0], ".."):
		return fmt.Errorf("invalid path: must not start with '..': %s", name)
	case path.Clean(name) == ".":
		return errors.New("invalid path: must name a file")
	}
	return nil
}
