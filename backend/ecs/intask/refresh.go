package intask

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/burstlet/burstlet/backend/ecs/intask/podfiles"
	"github.com/burstlet/burstlet/backend/pause"
)

// How often files are looked for that have changed.
const (
	defaultRefresh = 5 * time.Minute
	// dueRetry is how often they are looked for that should be there.
	dueRetry = 15 * time.Second
)

// refresher brings files of volumes up to date.
type refresher struct {
	task  Task
	every time.Duration
	// placed are hashes of what stands in the volumes, by name.
	placed map[string][sha256.Size]byte
	said   string
}

// refresher is one as the environment says.
func (t Task) refresher() (*refresher, error) {
	r := &refresher{task: t, every: defaultRefresh, placed: map[string][sha256.Size]byte{}}
	if text := t.Env(EnvRefresh); text != "" {
		every, err := time.ParseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", EnvRefresh, err)
		}
		r.every = every
	}
	return r, nil
}

// run looks until ctx ends. Where the pod has no files of its own there are none.
func (r *refresher) run(ctx context.Context) {
	if r.every <= 0 || r.task.Env(EnvPayload) == "" {
		return
	}
	wait := time.Duration(0) // once at first, to learn when contents are due
	for {
		if pause.For(ctx, wait) != nil {
			return
		}
		due, err := r.once(ctx)
		if ctx.Err() != nil {
			return
		}
		r.say(err)
		wait = r.next(time.Now(), due)
	}
}

// next is how long to wait before the next look. What is overdue is looked for more
// often.
func (r *refresher) next(now time.Time, due int64) time.Duration {
	if due == 0 {
		return r.every
	}
	return min(r.every, max(time.Unix(due, 0).Sub(now), dueRetry))
}

// say logs what is wrong, once.
func (r *refresher) say(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != r.said && text != "" {
		r.task.Log.Print(text)
	}
	r.said = text
}

// once fetches the pod's own files and swaps in those that have changed. It returns
// when there should be newer ones.
func (r *refresher) once(ctx context.Context) (due int64, err error) {
	p, err := r.task.ownFiles(ctx)
	if errors.Is(err, errNoSecret) {
		return 0, nil // nothing has changed yet that is this pod's alone
	}
	if err != nil {
		return 0, err
	}
	for _, v := range p.Volumes {
		err = errors.Join(err, r.place(ctx, v))
	}
	return p.Due, err
}

// place swaps in the files of one volume, if they are others.
func (r *refresher) place(ctx context.Context, v podfiles.Volume) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("volume %s: %w", v.Name, err)
	}
	sum := sha256.Sum256(text)
	if r.placed[v.Name] == sum {
		return nil
	}
	dir, err := r.task.volume(v.Name)
	if err != nil {
		return err
	}
	same, err := holds(dir, v.Files)
	if err != nil {
		return fmt.Errorf("volume %s: %w", v.Name, err)
	}
	if !same {
		if err := r.task.place(ctx, v); err != nil {
			return err
		}
	}
	r.placed[v.Name] = sum
	return nil
}

// dataDir is where the contents of a volume are (kubelet: AtomicWriter).
const dataDir = "..data"

// holds is true for a volume with just these contents. Programs watch for changes:
// contents that are the same are not swapped, as at the kubelet.
func holds(dir string, files []podfiles.File) (bool, error) {
	want := map[string][]byte{}
	for _, f := range files {
		want[filepath.Clean(f.Path)] = f.Data
	}
	root, err := os.OpenRoot(filepath.Join(dir, dataDir))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	same, err := sameFiles(root.FS(), want)
	return same, errors.Join(err, root.Close())
}

func sameFiles(have fs.FS, want map[string][]byte) (bool, error) {
	found := 0
	same := true
	err := fs.WalkDir(have, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !same {
			return err
		}
		data, known := want[path]
		now, err := fs.ReadFile(have, path)
		found++
		same = known && bytes.Equal(now, data)
		return err
	})
	return same && found == len(want), err
}
