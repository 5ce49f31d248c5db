package images

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"
)

// Programs returns files for a layer that hold programs of this machine in /bin,
// by their paths here, and the libraries that they are linked to at the paths that
// they have here.
func Programs(paths ...string) ([]File, error) {
	var files []File
	seen := map[string]bool{}
	add := func(from, to string) error {
		if seen[to] {
			return nil
		}
		seen[to] = true
		content, err := os.ReadFile(from)
		if err != nil {
			return fmt.Errorf("read program: %w", err)
		}
		files = append(files, File{Path: to, Mode: 0o755, Content: content})
		return nil
	}
	for _, program := range paths {
		if err := add(program, path.Join("bin", path.Base(program))); err != nil {
			return nil, err
		}
		libraries, err := librariesOf(program)
		if err != nil {
			return nil, err
		}
		for _, library := range libraries {
			if err := add(library, strings.TrimPrefix(path.Clean(library), "/")); err != nil {
				return nil, err
			}
		}
	}
	return files, nil
}

// librariesOf asks the machine's own loader what it would load, itself included.
func librariesOf(program string) ([]string, error) {
	out, err := exec.Command("ldd", program).CombinedOutput()
	if strings.Contains(string(out), "not a dynamic executable") {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find libraries of %s: %w: %s", program, err, out)
	}
	return parseLibraries(string(out))
}

// parseLibraries reads what ldd prints: "name => path (address)", or a path for
// the loader, or a name alone for what the kernel lends.
func parseLibraries(printed string) ([]string, error) {
	var libraries []string
	for line := range strings.Lines(printed) {
		if strings.Contains(line, "not found") {
			return nil, fmt.Errorf("library is missing: %s", strings.TrimSpace(line))
		}
		for _, field := range strings.Fields(line) {
			if strings.HasPrefix(field, "/") {
				libraries = append(libraries, field)
				break
			}
		}
	}
	return libraries, nil
}
