package intask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/host/local"
	"github.com/burstlet/burstlet/backend/ecs/intask/podfiles"
)

// Materialize makes the volumes what their pod says. Each is swapped in as a
// whole, so that a second run, of a container that was killed, finds either.
func (t Task) Materialize(ctx context.Context) error {
	if err := t.runDirs(); err != nil {
		return err
	}
	if err := t.dirs(); err != nil {
		return err
	}
	shared, err := t.sharedFiles()
	if err != nil {
		return err
	}
	own, err := t.ownFiles(ctx)
	if err != nil {
		return err
	}
	for _, v := range append(shared.Volumes, own.Volumes...) {
		if err := t.place(ctx, v); err != nil {
			return err
		}
	}
	return nil
}

// runDirs makes the run directories of the pod's containers root's alone, and puts
// this program where they find it.
func (t Task) runDirs() error {
	names := t.Env(EnvRunDirs)
	if names == "" {
		return nil
	}
	for name := range strings.SplitSeq(names, ",") {
		if !isElement(name) {
			return fmt.Errorf("%q is no name of a container", name)
		}
		dir := filepath.Join(t.runDir(), name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("run directory of %s: %w", name, err)
		}
		if err := os.Chmod(dir, 0o700); err != nil { // ECS made it
			return fmt.Errorf("run directory of %s: %w", name, err)
		}
	}
	if err := copySelf(or(t.Bin, BinDir)); err != nil {
		return fmt.Errorf("install the supervisor: %w", err)
	}
	return nil
}

// isElement is true for a name that is one element of a path.
func isElement(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.Contains(name, "/")
}

// copySelf copies this program, in one step.
func copySelf(dir string) error {
	from, err := os.Open(selfExe)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // it was only read
	path := filepath.Join(dir, filepath.Base(Supervisor))
	to, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Chmod(0o755), to.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// dirs gives the empty volumes their modes and groups.
func (t Task) dirs() error {
	text := t.Env(EnvDirs)
	if text == "" {
		return nil
	}
	var dirs []podfiles.Dir
	if err := json.Unmarshal([]byte(text), &dirs); err != nil {
		return fmt.Errorf("read %s: %w", EnvDirs, err)
	}
	for _, d := range dirs {
		path, err := t.volume(d.Name)
		if err != nil {
			return err
		}
		if d.Group != nil {
			if err := os.Chown(path, -1, int(*d.Group)); err != nil {
				return fmt.Errorf("volume %s: %w", d.Name, err)
			}
		}
		// After chown, which clears setgid. os.Chmod has its own bits for it.
		if err := syscall.Chmod(path, d.Mode); err != nil {
			return fmt.Errorf("volume %s: chmod: %w", d.Name, err)
		}
	}
	return nil
}

// sharedFiles are those that came in the environment.
func (t Task) sharedFiles() (podfiles.Payload, error) {
	if t.Env(FilesEnv(0)) == "" {
		return podfiles.Payload{}, nil
	}
	packed, err := podfiles.Join(func(i int) (string, error) { return t.Env(FilesEnv(i)), nil })
	if err != nil {
		return podfiles.Payload{}, fmt.Errorf("files of the shape: %w", err)
	}
	p, err := podfiles.Unpack(packed)
	if err != nil {
		return podfiles.Payload{}, fmt.Errorf("files of the shape: %w", err)
	}
	return p, nil
}

// ownFiles are those of this pod alone: the newest of the payloads that are written in
// turn. Errors: errNoSecret if none was written.
func (t Task) ownFiles(ctx context.Context) (podfiles.Payload, error) {
	first := t.Env(EnvPayload)
	if first == "" {
		return podfiles.Payload{}, nil
	}
	slots, err := podfiles.SlotNames(first)
	if err != nil {
		return podfiles.Payload{}, fmt.Errorf("files of the pod: %w", err)
	}
	newest, found := podfiles.Payload{}, errNoSecret
	for _, slot := range slots {
		p, err := t.slot(ctx, slot)
		switch {
		case errors.Is(err, errNoSecret) && len(slots) > 1:
			continue
		case err != nil:
			return podfiles.Payload{}, err
		case found != nil || p.Seq > newest.Seq:
			newest, found = p, nil
		}
	}
	if found != nil {
		return podfiles.Payload{}, fmt.Errorf("files of the pod: %w", found)
	}
	return newest, nil
}

// slot is one of the payloads that are written in turn.
func (t Task) slot(ctx context.Context, first string) (podfiles.Payload, error) {
	sealed, err := t.sealed(ctx, first)
	if err != nil {
		return podfiles.Payload{}, fmt.Errorf("files of the pod: %w", err)
	}
	packed, err := podfiles.Open(t.Env(EnvPayloadKey), first, sealed)
	if err != nil {
		return podfiles.Payload{}, fmt.Errorf("files of the pod: %w", err)
	}
	p, err := podfiles.Unpack(packed)
	if err != nil {
		return podfiles.Payload{}, fmt.Errorf("files of the pod: %w", err)
	}
	return p, nil
}

// sealed is a payload as it is stored: one object, or the parts that begin with a secret.
func (t Task) sealed(ctx context.Context, first string) ([]byte, error) {
	if _, _, ok := SplitObject(first); ok {
		return patiently(ctx, t, t.getObject, first)
	}
	names, err := podfiles.PartNames(first)
	if err != nil {
		return nil, err
	}
	return podfiles.Join(func(i int) (string, error) {
		if i >= len(names) {
			return "", errors.New("there are more parts than the name says")
		}
		return patiently(ctx, t, t.getSecret, names[i])
	})
}

// place writes the files of one volume.
func (t Task) place(ctx context.Context, v podfiles.Volume) error {
	dir, err := t.volume(v.Name)
	if err != nil {
		return err
	}
	files := make([]host.File, 0, len(v.Files))
	for _, f := range v.Files {
		files = append(files, host.File{Path: f.Path, Data: f.Data, Mode: f.Mode, UID: f.UID})
	}
	if err := local.WriteContents(ctx, dir, files, v.Group); err != nil {
		return fmt.Errorf("volume %s: %w", v.Name, err)
	}
	return nil
}

// volume is the directory of a volume, which ECS has mounted.
func (t Task) volume(name string) (string, error) {
	if !isElement(name) {
		return "", fmt.Errorf("%q is no name of a volume", name)
	}
	root := t.Volumes
	if root == "" {
		root = VolumesDir
	}
	return filepath.Join(root, name), nil
}
