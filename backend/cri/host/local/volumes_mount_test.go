package local

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/test/kit/need"
)

// onlyVolume is what Volumes says of the one volume that is there.
func onlyVolume(t *testing.T, h *Host, v host.Volume) host.Placed {
	t.Helper()
	placed, err := h.Volumes(t.Context(), v.Pod.Root, v.Pod.Node)
	noError(t, err)
	if len(placed) != 1 || placed[0].Name != v.Name || placed[0].PodName != v.PodName {
		t.Fatalf("placed = %+v, want %s alone", placed, v.Name)
	}
	return placed[0]
}

func mountsAt(t *testing.T, path string) (all mountTable) {
	t.Helper()
	for _, m := range mustMounts(t) {
		if m.path == path {
			all = append(all, m)
		}
	}
	return all
}

func TestMemoryVolumesAreMountedOnceAndResized(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		h, root := New(Options{}), mountRoot(t)
		v := volume(root, "cache", host.KindTmpfs, "h")
		v.SizeLimit = 1 << 20
		dir := v.Pod.Volume("cache")
		noError(t, h.Place(t.Context(), v))
		putFile(t, dir+"/kept", "x")
		noError(t, h.Place(t.Context(), v))
		m := mountsAt(t, dir)
		if len(m) != 1 || m[0].fstype != "tmpfs" || !slices.Contains(m[0].superOptions, "size=1024k") {
			t.Fatalf("mounts = %+v", m)
		}
		// The kubelet leaves the mode of the file system's root as it is: sticky.
		if info, err := os.Stat(dir); err != nil || info.Mode() != os.ModeDir|os.ModeSticky|0o777 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		for limit, want := range map[int64]string{2<<20 + 1: "size=2052k", 1 << 19: "size=512k"} {
			v.SizeLimit = limit
			noError(t, h.Place(t.Context(), v))
			if m = mountsAt(t, dir); len(m) != 1 || !slices.Contains(m[0].superOptions, want) {
				t.Errorf("%d: mounts = %+v", limit, m)
			}
		}
		if got := readBack(t, dir+"/kept"); got != "x" {
			t.Errorf("kept = %q", got)
		}
		v.SizeLimit = 0
		noError(t, h.Place(t.Context(), v))
		var fs unix.Statfs_t
		if noError(t, unix.Statfs(dir, &fs)); int64(fs.Blocks)*fs.Bsize < 1<<21 {
			t.Errorf("without a limit it has %d blocks", fs.Blocks)
		}
		// The host reboots.
		noError(t, unix.Unmount(dir, 0))
		if p := onlyVolume(t, h, v); p.Hash != "" {
			t.Errorf("unmounted, it has hash %q", p.Hash)
		}
		noError(t, h.Place(t.Context(), v))
		if p := onlyVolume(t, h, v); p.Hash != "h" || present(dir+"/kept") {
			t.Errorf("placed again: %+v", p)
		}
	})
}

func TestSecretsStandInMemoryOnly(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		h, root := New(Options{}), mountRoot(t)
		group, user := int64(4711), int64(1000)
		v := volume(root, "token", host.KindSecretFiles, "h1", host.File{
			Path: "token", Data: []byte("s3cret-1"), Mode: 0o600, UID: &user,
		})
		v.FSGroup = &group
		dir := v.Pod.Volume("token")
		noError(t, h.Place(t.Context(), v))
		noError(t, h.Place(t.Context(), v))
		v.Hash, v.Files[0].Data = "h2", []byte("s3cret-2")
		noError(t, h.Place(t.Context(), v))
		if m := mountsAt(t, dir); len(m) != 1 || m[0].fstype != "tmpfs" {
			t.Fatalf("mounts = %+v", m)
		}
		if got := readBack(t, dir+"/token"); got != "s3cret-2" {
			t.Errorf("token = %q", got)
		}
		info, err := os.Stat(dir + "/token")
		noError(t, err)
		// fsGroup may read (kubelet: roMask), the user owns.
		if st := info.Sys().(*syscall.Stat_t); info.Mode() != 0o640 || st.Gid != 4711 || st.Uid != 1000 {
			t.Errorf("mode %v, owner %d:%d", info.Mode(), st.Uid, st.Gid)
		}
		noError(t, unix.Unmount(dir, 0))
		noError(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && strings.Contains(readBack(t, path), "s3cret") {
				t.Errorf("%s on disk holds the secret", path)
			}
			return err
		}))
		if p := onlyVolume(t, h, v); p.Hash != "" {
			t.Errorf("placed = %+v after a reboot", p)
		}
		noError(t, h.Place(t.Context(), v))
		if got := readBack(t, dir+"/token"); got != "s3cret-2" {
			t.Errorf("token = %q", got)
		}
	})
}

func TestAFullDiskLeavesTheFormerContents(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		for kind, prepare := range map[string]func(t *testing.T, v *host.Volume){
			host.KindFiles: func(t *testing.T, v *host.Volume) {
				mountOn(t, "tmpfs", v.Pod.Root, "tmpfs", 0, "size=256k")
			},
			host.KindSecretFiles: func(_ *testing.T, v *host.Volume) { v.SizeLimit = 256 << 10 },
		} {
			t.Run(kind, func(t *testing.T) {
				h := New(Options{})
				v := volume(mountRoot(t), "config", kind, "h1", textFile("a", "1"), textFile("old", "o"))
				prepare(t, &v)
				dir := v.Pod.Volume("config")
				noError(t, h.Place(t.Context(), v))
				before := listing(t, dir)
				full := v
				full.Hash, full.Files = "h2", []host.File{textFile("a", "2"), textFile("big", strings.Repeat("x", 512<<10))}
				for range 3 {
					err := h.Place(t.Context(), full)
					if !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "xxx") {
						t.Fatalf("err = %.200v", err)
					}
				}
				if after := listing(t, dir); len(after) != len(before) || readBack(t, dir+"/a") != "1" ||
					readBack(t, dir+"/old") != "o" {
					t.Errorf("before %v\nafter %v", before, after)
				}
				if p := onlyVolume(t, h, v); p.Hash != "h1" {
					t.Errorf("placed = %+v, want the former hash", p)
				}
				full.Files[1] = textFile("big", "small after all")
				noError(t, h.Place(t.Context(), full))
				if readBack(t, dir+"/a") != "2" || present(dir+"/old") {
					t.Error("it did not recover")
				}
			})
		}
	})
}

func TestHugePagesAreMountedWithTheirSize(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		if !present("/sys/kernel/mm/hugepages/hugepages-2048kB") {
			need.Missing(t, "the kernel has no huge pages of 2Mi")
		}
		h, root := New(Options{}), mountRoot(t)
		v := volume(root, "huge", host.KindHugePages, "h")
		v.PageSize = "2Mi"
		noError(t, h.Place(t.Context(), v))
		v.Hash = "other"
		noError(t, h.Place(t.Context(), v))
		m := mountsAt(t, v.Pod.Volume("huge"))
		if len(m) != 1 || m[0].fstype != "hugetlbfs" || !slices.Contains(m[0].superOptions, "pagesize=2M") {
			t.Errorf("mounts = %+v", m)
		}
		v.PageSize = "1Gi"
		if err := h.Place(t.Context(), v); err == nil ||
			!strings.Contains(err.Error(), "pagesize '2Mi' and requested medium size '1Gi' differ") {
			t.Errorf("err = %v", err)
		}
	})
}

func TestALocalVolumeIsBound(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		h, root := New(Options{}), mountRoot(t)
		source := root + "/source"
		v := volume(root+"/pods", "local", host.KindBind, "h")
		v.Source, v.ReadOnly, v.MountOptions = source, true, []string{"noexec"}
		dir := v.Pod.Volume("local")
		if err := h.Place(t.Context(), v); !errors.Is(err, os.ErrNotExist) ||
			!strings.Contains(err.Error(), "does not exist") {
			t.Errorf("err = %v", err)
		}
		if p := onlyVolume(t, h, v); p.Hash != "" {
			t.Errorf("placed = %+v", p)
		}
		putDir(t, source)
		mountOn(t, "tmpfs", source, "tmpfs", unix.MS_NODEV, "")
		putFile(t, source+"/data", "theirs")
		// A crash came after the first of two steps.
		putDir(t, dir)
		mountOn(t, source, dir, "", unix.MS_BIND, "")
		noError(t, h.Place(t.Context(), v))
		noError(t, h.Place(t.Context(), v))
		m := mountsAt(t, dir)
		if len(m) != 1 || !slices.Contains(m[0].options, "ro") || !slices.Contains(m[0].options, "noexec") ||
			!slices.Contains(m[0].options, "nodev") {
			t.Fatalf("mounts = %+v", m)
		}
		if err := os.WriteFile(dir+"/data", nil, 0o644); !errors.Is(err, syscall.EROFS) {
			t.Errorf("write: %v", err)
		}
		if m := mountsAt(t, source); slices.Contains(m[0].options, "ro") {
			t.Error("the source turned read-only")
		}
		// Another directory is to stand there.
		v.Source, v.Hash, v.ReadOnly, v.MountOptions = putDir(t, root, "other"), "h2", false, nil
		noError(t, h.Place(t.Context(), v))
		if m := mountsAt(t, dir); len(m) != 1 || slices.Contains(m[0].options, "ro") || present(dir+"/data") {
			t.Errorf("mounts = %+v", m)
		}
		noError(t, h.Clear(t.Context(), v.Pod))
		if got := readBack(t, source+"/data"); got != "theirs" {
			t.Errorf("data = %q", got)
		}
	})
}

func TestTheFirstPodSetsTheOwnershipOfALocalVolume(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		h, root := New(Options{}), mountRoot(t)
		source := putDir(t, root, "source")
		putFile(t, source+"/data", "x")
		first, second := volume(root+"/pods", "local", host.KindBind, "h"), volume(root+"/pods", "local", host.KindBind, "h")
		second.Pod.UID = "uid-2"
		one, two := int64(1001), int64(1002)
		first.Source, first.FSGroup, second.Source, second.FSGroup = source, &one, source, &two
		for _, v := range []host.Volume{first, second} {
			noError(t, h.Place(t.Context(), v))
			info, err := os.Stat(source + "/data")
			noError(t, err)
			if got := info.Sys().(*syscall.Stat_t).Gid; got != 1001 || info.Mode() != 0o664 {
				t.Errorf("group %d, mode %v", got, info.Mode())
			}
		}
	})
}

func TestNFSIsMountedByTheHostsOwnCommand(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		root := mountRoot(t)
		// What is asked of mount(8) is checked: there is no server.
		command := putFile(
			t, root+"/bin/mount", "#!/bin/sh\necho \"$@\" >> "+root+"/args\necho 'mount: bad option' >&2\nexit 32\n",
		)
		noError(t, os.Chmod(command, 0o755))
		h := New(Options{MountCommand: command})
		v := volume(root+"/pods", "share", host.KindNFS, "h")
		v.Source, v.ReadOnly, v.MountOptions = "server:/export", true, []string{"nfsvers=4.1", "soft"}
		err := h.Place(t.Context(), v)
		want := "-t nfs -o nfsvers=4.1,soft,ro server:/export " + v.Pod.Volume("share")
		if got := strings.TrimSpace(readBack(t, root+"/args")); got != want {
			t.Errorf("mount %s, want %s", got, want)
		}
		for _, part := range []string{"mount failed: exit status 32\n", "Mounting arguments: " +
			want, "Output: mount: bad option"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("err = %v, want %q", err, part)
			}
		}
		if !hasNFSHelper() && !strings.Contains(err.Error(), "nfs-common") {
			t.Errorf("err = %v, want the package that is missing", err)
		}
		if p := onlyVolume(t, h, v); p.Hash != "" {
			t.Errorf("placed = %+v", p)
		}
		// A command that hangs ends with its time, and what it started with it.
		fifo := root + "/fifo"
		noError(t, unix.Mkfifo(fifo, 0o600))
		noError(t, os.WriteFile(command, []byte("#!/bin/sh\nexec 3>"+fifo+"\necho started >&3\nsleep 600 &\nwait\n"), 0o755))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			f, err := os.Open(fifo)
			if err == nil {
				_, err = f.Read(make([]byte, 8))
				cancel()
				_, rest := io.ReadAll(f)
				err = errors.Join(err, rest, f.Close())
			}
			ended <- err
		}()
		if err := h.Place(ctx, v); !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v, want the end of its time", err)
		}
		noError(t, <-ended)
		noError(t, h.Clear(t.Context(), v.Pod))
	})
}

// hangMount mounts a file system whose server never answers, as an NFS server that has
// gone.
func hangMount(t *testing.T, path string) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		need.Missing(t, "no file system that hangs: %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	putDir(t, path)
	mountOn(t, "gone", path, "fuse", 0, "fd="+strconv.Itoa(fd)+",rootmode=40000,user_id=0,group_id=0")
}

func TestAServerThatIsGoneHoldsNothingUp(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		h, root := New(Options{}), mountRoot(t)
		v := volume(root+"/pods", "local", host.KindBind, "h")
		v.Source = root + "/gone"
		hangMount(t, v.Source)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if err := h.Place(ctx, v); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Place = %v", err)
		}
		sub := host.SubPath{Volume: v.Source, Path: "x", Target: v.Pod.SubPath("c_0", "0")}
		ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := h.Prepare(ctx, host.Preparation{SubPaths: []host.SubPath{sub}}); !errors.Is(
			err, context.DeadlineExceeded,
		) {
			t.Fatalf("Prepare = %v", err)
		}
		hangMount(t, v.Pod.Volume("local"))
		if p := onlyVolume(t, h, v); p.Hash != "" {
			t.Errorf("placed = %+v", p)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		noError(t, h.Clear(ctx, v.Pod))
		noError(t, unix.Unmount(v.Source, unix.MNT_DETACH))
	})
}
