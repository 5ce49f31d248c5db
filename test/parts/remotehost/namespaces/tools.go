package namespaces

import (
	"os/exec"
	"path/filepath"
)

// Path is the PATH inside a host, and of tools run for it.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Env is the whole environment of processes in a host: nothing of the caller's
// (proxies, credentials) gets in.
func Env() []string { return []string{"PATH=" + Path, "LC_ALL=C"} }

// LookPath finds a binary where a host will look for it: the caller's PATH
// may lack the directories of administration tools.
func LookPath(binary string) (string, error) {
	for _, dir := range filepath.SplitList(Path) {
		if path, err := exec.LookPath(filepath.Join(dir, binary)); err == nil {
			return path, nil
		}
	}
	return "", &exec.Error{Name: binary, Err: exec.ErrNotFound}
}
