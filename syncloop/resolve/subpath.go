package resolve

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

var errBacksteps = errors.New("must not contain '..'")

// expandSubPaths makes SubPath of every SubPathExpr, in place, and refuses paths
// that would leave the volume. What a link within the volume points at is for
// the backend to refuse.
func expandSubPaths(mounts []corev1.VolumeMount, vars *environment) error {
	for i := range mounts {
		m := &mounts[i]
		if m.SubPathExpr != "" {
			expanded, err := expandStrict(m.SubPathExpr, vars)
			if err != nil {
				return err
			}
			m.SubPath, m.SubPathExpr = expanded, ""
		}
		if path.IsAbs(m.SubPath) {
			return fmt.Errorf("error SubPath `%s` must not be an absolute path", m.SubPath)
		}
		if slices.Contains(strings.Split(m.SubPath, "/"), "..") {
			return fmt.Errorf("unable to provision SubPath `%s`: %w", m.SubPath, errBacksteps)
		}
	}
	return nil
}

// expandStrict is expand where every variable must be set and not be empty.
func expandStrict(s string, vars *environment) (string, error) {
	lacking := map[string]bool{}
	out := expand(s, func(name string) (string, bool) {
		value, _ := vars.get(name)
		if value.string == "" {
			lacking[name] = true
		}
		return value.string, true
	})
	if len(lacking) > 0 {
		return "", fmt.Errorf("missing value for %s", strings.Join(slices.Sorted(maps.Keys(lacking)), ", "))
	}
	return out, nil
}
