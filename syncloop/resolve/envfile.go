package resolve

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// EnvFilesOf are the files that a container's variables come from, each once.
func EnvFilesOf(c *corev1.Container) []EnvFile {
	var files []EnvFile
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && from.FileKeyRef != nil {
			if f := envFileOf(from.FileKeyRef); !slices.Contains(files, f) {
				files = append(files, f)
			}
		}
	}
	return files
}

func envFileOf(ref *corev1.FileKeySelector) EnvFile { return EnvFile{ref.VolumeName, ref.Path} }

// fileKey is the variable that a file of a volume sets. A file that is missing is forgiven
// an optional one, as the API says it; a kubelet 1.36 forgives only the key.
func (r resolver) fileKey(ref *corev1.FileKeySelector) (text, bool, error) {
	file, known := r.objects.EnvFiles[envFileOf(ref)]
	switch {
	case !known:
		return text{}, false, fmt.Errorf("file %q of volume %q: %w", ref.Path, ref.VolumeName, ErrWaiting)
	case missing(file.Err) && optional(ref.Optional):
		return text{}, false, nil
	case file.Err != nil:
		return text{}, false, fmt.Errorf("couldn't parse env file: %w", file.Err)
	}
	value, err := envFileValue(file.Value, ref.Key)
	switch {
	case err != nil:
		return text{}, false, fmt.Errorf("couldn't parse env file: file %q of volume %q: %w", ref.Path, ref.VolumeName, err)
	case value != "":
		return text{value, backend.OriginSecret}, true, nil
	case optional(ref.Optional):
		return text{}, false, nil
	}
	return text{}, false, fmt.Errorf("environment variable key %q not found in file %q of volume %q",
		ref.Key, ref.Path, ref.VolumeName)
}

// envFileValue is what a file sets a variable to, in the subset of a shell's syntax that
// a kubelet reads (pkg/kubelet/util/env): NAME='value', over several lines if need be, and
// comments. Empty: the file does not set it. What stands after the variable is not looked
// at. Errors name lines, and nothing of what they hold.
func envFileValue(data []byte, key string) (string, error) {
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	for n := 0; n < len(lines); n++ {
		line := strings.TrimLeft(lineOf(lines[n]), " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, err := assignment(line)
		if err != nil {
			return "", fmt.Errorf("invalid environment variable format at line %d: %w", n+1, err)
		}
		if strings.TrimLeft(value, " \t") != value { // a shell takes what follows for a command
			if name == key {
				return "", nil
			}
			continue
		}
		first := n
		quoted, found := strings.CutPrefix(value, "'")
		if !found {
			return "", fmt.Errorf("invalid environment variable format at line %d: value must be enclosed in single quotes", n+1)
		}
		for !strings.Contains(quoted, "'") {
			if n++; n == len(lines) {
				return "", fmt.Errorf("invalid environment variable format starting at line %d: unclosed single quote", first+1)
			}
			quoted += "\n" + lineOf(lines[n])
		}
		inner, after, _ := strings.Cut(quoted, "'")
		if after = strings.TrimLeft(after, " \t"); after != "" && after[0] != '#' {
			return "", fmt.Errorf("invalid environment variable format at line %d: unexpected content after closing quote", n+1)
		}
		if name == key {
			return inner, nil
		}
	}
	return "", nil
}

// lineOf is a line without the carriage return that ends it.
func lineOf(line string) string { return strings.TrimSuffix(line, "\r") }

func assignment(line string) (name, value string, err error) {
	name, value, found := strings.Cut(line, "=")
	switch trimmed := strings.TrimRight(name, " \t"); {
	case !found:
		return "", "", errors.New("missing '='")
	case trimmed == "":
		return "", "", errors.New("empty variable name")
	case trimmed != name:
		return "", "", errors.New("whitespace before '=' is not allowed")
	}
	return name, value, nil
}
