package intask

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A part of a volume is linked where it is mounted, once, over what stands there.
func TestWhereAPartOfAVolumeIsLinked(t *testing.T) {
	for name, tc := range map[string]struct {
		sub    SubPath
		before func(root string) error
		want   string // in the volume; or the error
		fails  bool
	}{
		"a directory":      {sub: SubPath{Path: "a"}, want: "a"},
		"deep, to be made": {sub: SubPath{Path: "new/deep"}, want: "new/deep"},
		"all of it":        {sub: SubPath{Path: "."}, want: "."},
		"expanded":         {sub: SubPath{Path: "$(NAME)/x", Expand: true}, want: "pod/x"},
		"not expanded":     {sub: SubPath{Path: "$(NAME)"}, want: "$(NAME)"},
		"a missing name":   {sub: SubPath{Path: "$(NO)", Expand: true}, want: "subPathExpr of ", fails: true},
		"outside":          {sub: SubPath{Path: "a/../../b"}, want: "must not contain '..'", fails: true},
		"from the root":    {sub: SubPath{Path: "/etc"}, want: "must not be an absolute path", fails: true},
		"missing, read-only": {
			sub: SubPath{Path: "none", ReadOnly: true}, want: "failed to prepare subPath for volumeMount ", fails: true,
		},
		"over an empty directory": {
			sub: SubPath{Path: "a"}, want: "a",
			before: func(root string) error { return os.MkdirAll(filepath.Join(root, "mnt/at"), 0o755) },
		},
		"over another link": {
			sub: SubPath{Path: "a"}, want: "a",
			before: func(root string) error {
				return errors.Join(os.Mkdir(filepath.Join(root, "mnt"), 0o755), os.Symlink("/etc", filepath.Join(root, "mnt/at")))
			},
		},
		"below a file": {
			sub: SubPath{Path: "a"}, want: "mount subPath a: ", fails: true,
			before: func(root string) error { return os.WriteFile(filepath.Join(root, "mnt"), nil, 0o600) },
		},
	} {
		root := t.TempDir()
		tc.sub.Volume, tc.sub.MountPath = filepath.Join(root, "volume"), filepath.Join(root, "mnt/at")
		must(t, os.MkdirAll(filepath.Join(tc.sub.Volume, "a"), 0o755))
		if tc.before != nil {
			must(t, tc.before(root))
		}
		for range 2 {
			err := tc.sub.link([]string{"NAME=pod"})
			if tc.fails {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			target, errLink := os.Readlink(tc.sub.MountPath)
			if err != nil || errLink != nil || target != filepath.Join(tc.sub.Volume, tc.want) {
				t.Errorf("%s: %s, %v, %v", name, target, err, errLink)
			}
			if info, err := os.Stat(target); err != nil || !info.IsDir() {
				t.Errorf("%s: %v, %v", name, info, err)
			}
		}
	}
}
