package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// TestReadWithin: whoever writes to a volume can lead nobody out of it, nor keep him waiting.
func TestReadWithin(t *testing.T) {
	root := t.TempDir()
	volume := filepath.Join(root, "volume")
	noError(t, os.MkdirAll(filepath.Join(volume, "sub"), 0o755))
	write := func(name, data string) { noError(t, os.WriteFile(filepath.Join(root, name), []byte(data), 0o600)) }
	write("secret", "of the host")
	write("volume/sub/env", "A='1'")
	write("volume/full", strings.Repeat("x", 16))
	write("volume/large", strings.Repeat("x", 17))
	noError(t, unix.Mkfifo(filepath.Join(volume, "pipe"), 0o644))
	for link, to := range map[string]string{
		"inside": "sub/env", "outside": "../secret", "absolute": filepath.Join(root, "secret"), "dir": "..",
	} {
		noError(t, os.Symlink(to, filepath.Join(volume, link)))
	}
	h := New(Options{})
	for path, want := range map[string]struct {
		data string
		err  error
	}{
		"sub/env": {data: "A='1'"}, "inside": {data: "A='1'"}, "full": {data: strings.Repeat("x", 16)},
		"large": {err: backend.ErrInvalid}, "pipe": {err: backend.ErrInvalid}, "sub": {err: backend.ErrInvalid},
		"outside": {err: backend.ErrInvalid}, "absolute": {err: backend.ErrInvalid}, "dir/secret": {err: backend.ErrInvalid},
		"../secret": {err: backend.ErrInvalid}, "missing": {err: fs.ErrNotExist}, "none/env": {err: fs.ErrNotExist},
	} {
		data, err := h.ReadWithin(t.Context(), host.FileWithin{Dir: volume, Path: path, Limit: 16})
		if string(data) != want.data || (want.err == nil) != (err == nil) || want.err != nil && !errors.Is(err, want.err) {
			t.Errorf("%s: %q, %v; want %q, %v", path, data, err, want.data, want.err)
		}
	}
}
