package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// kubeletDirMode is that of directories that only the kubelet enters.
const kubeletDirMode = 0o750

// Place implements [host.Host].
func (h *Host) Place(ctx context.Context, v host.Volume) error {
	if err := h.led(ctx); err != nil {
		return err
	}
	pod, err := realPod(v.Pod)
	if err != nil {
		return err
	}
	v.Pod = pod
	if err := checkVolume(v); err != nil {
		return err
	}
	dir, err := h.enterPod(ctx, v.Pod)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if err := claimPod(v.Pod); err != nil {
		return err
	}
	if err := mkdirAll(filepath.Dir(v.Pod.Described(v.Name)), kubeletDirMode); err != nil {
		return err
	}
	lock, err := lockVolume(ctx, v)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	return h.place(ctx, v)
}

// place makes a volume that is locked.
func (h *Host) place(ctx context.Context, v host.Volume) error {
	table, err := h.mounts()
	if err != nil {
		return err
	}
	p := &placing{h: h, v: v, dir: v.Pod.Volume(v.Name), mounts: table}
	was, err := readDescription(v.Pod, v.Name)
	if err != nil {
		return err
	}
	now, boot := describe(v), h.bootID()
	if was.Hash != "" && was.Hash == v.Hash && was.same(now) && whole(v.Pod, was, table, boot) {
		return nil
	}
	if was.Kind != "" && was.Kind != v.Kind {
		if err := p.clear(ctx); err != nil {
			return err
		}
	}
	// What is about to be there must be known before it is. Former contents are
	// described truly until they are swapped: Data tells.
	if !hasContents(v.Kind) || was.Kind != v.Kind {
		if err := writeDescription(v.Pod, now); err != nil {
			return err
		}
	}
	if err := mkdirAll(filepath.Dir(p.dir), kubeletDirMode); err != nil {
		return err
	}
	if now.Data, err = p.make(ctx); err != nil {
		return err
	}
	now.Hash, now.PlacedAt, now.BootID = v.Hash, time.Now(), boot
	return writeDescription(v.Pod, now)
}

// checkVolume refuses what would lead out of the pod's directory, or nowhere.
func checkVolume(v host.Volume) error {
	if v.Pod.Node == "" {
		return fmt.Errorf("volume %s without the identity of its node: %w", v.Name, fs.ErrInvalid)
	}
	if !isName(v.Name) {
		return fmt.Errorf("volume name %q: %w", v.Name, fs.ErrInvalid)
	}
	switch v.Kind {
	case host.KindDir, host.KindTmpfs, host.KindHugePages, host.KindFiles, host.KindSecretFiles:
	case host.KindNFS:
		if i := strings.Index(v.Source, ":/"); i < 1 || strings.HasPrefix(v.Source, "-") {
			return fmt.Errorf("NFS source %q is not server:/path: %w", v.Source, fs.ErrInvalid)
		}
	case host.KindBind:
		if !filepath.IsAbs(v.Source) || backsteps(v.Source) {
			return fmt.Errorf("invalid path: %s must be absolute and must not contain '..': %w", v.Source, fs.ErrInvalid)
		}
	default:
		return fmt.Errorf("volume kind %q: %w", v.Kind, fs.ErrInvalid)
	}
	return nil
}

// isName is true for what can be one entry of a directory.
func isName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}

// realPod checks a pod's directory and resolves the links that lead to its root, so
// that mountinfo names it as we do.
func realPod(pod host.PodDir) (host.PodDir, error) {
	if !isName(pod.UID) {
		return pod, fmt.Errorf("pod UID %q: %w", pod.UID, fs.ErrInvalid)
	}
	path, err := realPath(filepath.Join(pod.Root, pod.UID))
	if err != nil {
		return pod, err
	}
	// The root itself may be a link, too.
	root, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err == nil {
		pod.Root = root
	} else if !errors.Is(err, fs.ErrNotExist) {
		return pod, err
	}
	return pod, nil
}

// whole is true where all of a volume is there: its hash can be believed. Mounts and
// boot are what is so now.
func whole(pod host.PodDir, d description, table mountTable, boot string) bool {
	dir := pod.Volume(d.Name)
	if fstypes, must := mountedAs(d.Kind); must {
		m, mounted := table.at(dir)
		if !mounted || (fstypes != "" && !strings.HasPrefix(m.fstype, fstypes)) {
			return false
		}
	} else if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return false
	}
	if !hasContents(d.Kind) {
		return true
	}
	// Data that was written shortly before the host fell may be lost, though its
	// names are there.
	if d.BootID != boot {
		return false
	}
	data, err := os.Readlink(filepath.Join(dir, dataLink))
	return err == nil && data == d.Data
}

// mountedAs says with which file system a kind is mounted ("" for any), if it is.
func mountedAs(kind string) (fstype string, must bool) {
	switch kind {
	case host.KindTmpfs, host.KindSecretFiles:
		return "tmpfs", true
	case host.KindHugePages:
		return "hugetlbfs", true
	case host.KindNFS:
		return "nfs", true
	case host.KindBind:
		return "", true
	}
	return "", false
}

// hasContents is true for kinds whose files are given.
func hasContents(kind string) bool {
	return kind == host.KindFiles || kind == host.KindSecretFiles
}

// bootID is the kernel's name for the time since it started.
func (h *Host) bootID() string {
	id, err := os.ReadFile(filepath.Join(h.opts.ProcRoot, "sys/kernel/random/boot_id"))
	if err != nil {
		// Without it contents count as kept over reboots.
		return ""
	}
	return strings.TrimSpace(string(id))
}
