package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// emptyDirMode is that of directories for a pod's users.
const emptyDirMode = 0o777

// placing is one volume being made. It may have been made before, in part.
type placing struct {
	h   *Host
	v   host.Volume
	dir string
	// mounts are those from before.
	mounts mountTable
}

// make makes the volume and returns where ..data points, for kinds with contents.
func (p *placing) make(ctx context.Context) (data string, err error) {
	switch p.v.Kind {
	case host.KindDir:
		if err := mkdirEmptyDir(p.dir); err != nil {
			return "", err
		}
		return "", p.own(ctx, false)
	case host.KindTmpfs:
		if err := p.tmpfs(ctx); err != nil {
			return "", err
		}
		return "", p.own(ctx, false)
	case host.KindHugePages:
		if err := p.hugePages(); err != nil {
			return "", err
		}
		return "", p.own(ctx, false)
	case host.KindFiles:
		if err := mkdirEmptyDir(p.dir); err != nil {
			return "", err
		}
		return p.contents(ctx)
	case host.KindSecretFiles:
		if err := p.tmpfs(ctx); err != nil {
			return "", err
		}
		return p.contents(ctx)
	case host.KindNFS:
		return "", p.nfs(ctx)
	case host.KindBind:
		return "", p.bind(ctx)
	}
	return "", fmt.Errorf("volume kind %q: %w", p.v.Kind, fs.ErrInvalid)
}

// own gives the volume to its fsGroup.
func (p *placing) own(ctx context.Context, onRootMismatch bool) error {
	if p.v.FSGroup == nil {
		return nil
	}
	return setOwnership(ctx, p.dir, ownership{group: int(*p.v.FSGroup), onRootMismatch: onRootMismatch})
}

// clear removes what stands where another kind of volume is to be.
func (p *placing) clear(ctx context.Context) error {
	if err := p.h.unmountBelow(ctx, p.dir); err != nil {
		return err
	}
	if err := removeTree(ctx, p.dir); err != nil {
		return err
	}
	var err error
	p.mounts, err = p.h.mounts()
	return err
}

// mkdirEmptyDir makes a directory that every user of the pod may write to (kubelet:
// emptydir perm).
func mkdirEmptyDir(path string) error {
	if err := mkdirAll(path, emptyDirMode); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "mkdir", Path: path, Err: unix.ENOTDIR}
	}
	if info.Mode().Perm() != emptyDirMode {
		return os.Chmod(path, emptyDirMode)
	}
	return nil
}

// tmpfs mounts memory, or gives what is mounted its size.
func (p *placing) tmpfs(ctx context.Context) error {
	m, mounted := p.mounts.at(p.dir)
	if mounted && m.fstype != "tmpfs" {
		if err := p.clear(ctx); err != nil {
			return err
		}
		mounted = false
	}
	if mounted {
		return p.resizeTmpfs(m)
	}
	if err := mkdirEmptyDir(p.dir); err != nil {
		return err
	}
	options := tmpfsSize(p.v.SizeLimit)
	// The kernel takes noswap from 6.4 on (kubelet: IsTmpfsNoswapOptionSupported).
	err := unix.Mount("tmpfs", p.dir, "tmpfs", 0, joinOptions(options, "noswap"))
	if errors.Is(err, unix.EINVAL) {
		err = unix.Mount("tmpfs", p.dir, "tmpfs", 0, options)
	}
	if err != nil {
		return fmt.Errorf("mount tmpfs at %s: %w", p.dir, err)
	}
	return nil
}

// resizeTmpfs changes the size of a tmpfs where it is another. The kernel refuses
// less than what is in use.
func (p *placing) resizeTmpfs(m mountPoint) error {
	now, limited := m.option("size")
	if p.v.SizeLimit == 0 && !limited || p.v.SizeLimit > 0 && now == tmpfsSizeShown(p.v.SizeLimit) {
		return nil
	}
	options := tmpfsSize(p.v.SizeLimit)
	if options == "" {
		options = "size=50%"
	}
	if _, noswap := m.option("noswap"); noswap {
		options = joinOptions(options, "noswap")
	}
	if err := unix.Mount("tmpfs", p.dir, "tmpfs", unix.MS_REMOUNT, options); err != nil {
		return fmt.Errorf("resize tmpfs at %s to %d bytes: %w", p.dir, p.v.SizeLimit, err)
	}
	return nil
}

func tmpfsSize(limit int64) string {
	if limit <= 0 {
		return ""
	}
	return "size=" + strconv.FormatInt(limit, 10)
}

// tmpfsSizeShown is how mountinfo shows a size: whole pages in KiB.
func tmpfsSizeShown(limit int64) string {
	page := int64(os.Getpagesize())
	return strconv.FormatInt((limit+page-1)/page*page/1024, 10) + "k"
}

func joinOptions(options ...string) string {
	return strings.Join(slices.DeleteFunc(options, func(o string) bool { return o == "" }), ",")
}

// hugePages mounts hugetlbfs; 2Mi is 2M to the kernel.
func (p *placing) hugePages() error {
	size := strings.TrimSuffix(p.v.PageSize, "i")
	if m, mounted := p.mounts.at(p.dir); mounted && m.fstype == "hugetlbfs" {
		if now, known := m.option("pagesize"); known && size != "" && now != size {
			return fmt.Errorf("mounted dir %s pagesize '%si' and requested medium size '%s' differ", p.dir, now, p.v.PageSize)
		}
		return nil
	}
	if err := mkdirEmptyDir(p.dir); err != nil {
		return err
	}
	options := ""
	if size != "" {
		options = "pagesize=" + size
	}
	if err := unix.Mount("nodev", p.dir, "hugetlbfs", 0, options); err != nil {
		return fmt.Errorf("mount hugetlbfs at %s with %q: %w", p.dir, options, err)
	}
	return nil
}

// contents writes the files and the directories that other volumes are mounted on.
func (p *placing) contents(ctx context.Context) (string, error) {
	for _, nested := range p.v.Nested {
		if !filepath.IsLocal(nested) {
			return "", fmt.Errorf("invalid path: must be within the volume: %s", nested)
		}
	}
	w, err := openContents(p.dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = w.root.Close() }()
	for _, nested := range p.v.Nested {
		if err := w.root.MkdirAll(nested, 0o755); err != nil {
			return "", fmt.Errorf("unable to create nested volume mountpoints: %w", err)
		}
	}
	return w.write(p.v.Files, func() error {
		if p.v.FSGroup == nil {
			return nil
		}
		// Contents are the kubelet's to write: the group reads.
		return setOwnership(ctx, p.dir, ownership{group: int(*p.v.FSGroup), readOnly: true})
	})
}
