package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
)

const (
	// measureEvery is how old a pod's disk usage may be (kubelet: volumeStatsAggPeriod).
	measureEvery = time.Minute
	// measureFor bounds the walking of one call.
	measureFor = 200 * time.Millisecond
	// forgetAfter drops pods that are not asked for any more.
	forgetAfter = 5 * time.Minute
)

// usageCache is what pods' disks held when they were last walked, by UID.
type usageCache struct {
	mu   sync.Mutex
	pods map[string]*diskUsage
}

// diskUsage is one pod's.
type diskUsage struct {
	measured host.PodUsage // logs and volumes alone
	asked    time.Time
	// walk is a measurement that is not done; turn is when its turn last came.
	walk *podWalk
	turn time.Time
}

// measureDisks returns each pod's logs and volumes, of those that were measured.
// The pods that have waited longest for a turn are walked first, while the time lasts:
// one whose walk does not end keeps no other from being measured.
func (h *Host) measureDisks(ctx context.Context, pods []host.PodUsageRequest) (map[string]host.PodUsage, error) {
	c := &h.usage
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	var due []host.PodUsageRequest
	for _, p := range pods {
		if c.touch(p.UID, now).due(now) {
			due = append(due, p)
		}
	}
	for uid, d := range c.pods {
		if now.Sub(d.asked) > forgetAfter {
			d.walk.close()
			delete(c.pods, uid)
		}
	}
	if err := h.walk(ctx, due, now.Add(measureFor)); err != nil {
		return nil, err
	}
	out := make(map[string]host.PodUsage, len(pods))
	for _, p := range pods {
		out[p.UID] = c.pods[p.UID].measured
	}
	return out, nil
}

func (c *usageCache) touch(uid string, now time.Time) *diskUsage {
	if c.pods == nil {
		c.pods = map[string]*diskUsage{}
	}
	d := c.pods[uid]
	if d == nil {
		d = &diskUsage{}
		c.pods[uid] = d
	}
	d.asked = now
	return d
}

func (d *diskUsage) due(now time.Time) bool {
	return d.walk != nil || now.Sub(d.measured.MeasuredAt) >= measureEvery
}

// walk measures pods until the deadline; what is not done goes on in the next
// call.
func (h *Host) walk(ctx context.Context, due []host.PodUsageRequest, deadline time.Time) error {
	if len(due) == 0 {
		return nil
	}
	mounts, err := h.mounts()
	if err != nil {
		return err
	}
	types := make(map[string]string, len(mounts))
	for _, m := range mounts {
		types[m.path] = m.fstype
	}
	slices.SortStableFunc(due, func(a, b host.PodUsageRequest) int {
		return h.usage.pods[a.UID].turn.Compare(h.usage.pods[b.UID].turn)
	})
	for _, p := range due {
		d := h.usage.pods[p.UID]
		if d.walk == nil {
			if d.walk, err = newPodWalk(p, types); err != nil {
				return fmt.Errorf("measure disks of pod %s: %w", p.UID, err)
			}
		}
		d.turn = time.Now()
		done, err := d.walk.step(ctx, deadline)
		if err != nil {
			return fmt.Errorf("measure disks of pod %s: %w", p.UID, err)
		}
		if !done {
			return nil
		}
		d.measured, d.walk = d.walk.result(), nil
	}
	return nil
}

// podWalk measures one pod's disks.
type podWalk struct {
	usage host.PodUsage
	// files are the directories beside the logs; their sizes go to usage.Files.
	files map[string]host.Filesystem
	trees []*tree
	next  int
}

// newPodWalk lists what is to be walked. A file system of a volume's own is asked
// instead (kubelet: NewMetricsStatFS), unless it is across a network: it might
// never answer.
func newPodWalk(p host.PodUsageRequest, types map[string]string) (*podWalk, error) {
	w := &podWalk{
		usage: host.PodUsage{Logs: map[string]host.Filesystem{}, Volumes: map[string]host.Filesystem{}},
		files: map[string]host.Filesystem{},
	}
	if err := w.addLogs(p.LogDir); err != nil {
		return nil, err
	}
	if p.Dir.Root == "" {
		return w, nil
	}
	dir, volumes, err := volumeDirs(p.Dir)
	if err != nil {
		return nil, err
	}
	for _, name := range volumes {
		path := filepath.Join(dir, name)
		fstype, mounted := types[path]
		switch {
		case !mounted:
			w.trees = append(w.trees, &tree{kind: w.usage.Volumes, name: name, root: path, volume: true})
		case !remote(fstype):
			if w.usage.Volumes[name], err = filesystem(path); err != nil {
				return nil, err
			}
		}
	}
	return w, nil
}

// addLogs adds what stands in the pod's log directory. No container's name begins with
// a dot: what does is ours, and its containers may write to it.
func (w *podWalk) addLogs(dir string) error {
	if dir == "" {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		t := &tree{kind: w.usage.Logs, name: e.Name(), root: filepath.Join(dir, e.Name())}
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			t.kind = w.files
		}
		switch {
		case e.IsDir():
			w.trees = append(w.trees, t)
		case e.Type().IsRegular() && !isOwn(e.Name()):
			var stat unix.Stat_t
			if err := unix.Lstat(t.root, &stat); err == nil {
				t.kind[t.name] = host.Filesystem{Used: uint64(stat.Blocks) * statBlock, InodesUsed: 1}
			} else if !vanished(err) {
				return &fs.PathError{Op: "stat", Path: t.root, Err: err}
			}
		}
	}
	return nil
}

// isOwn is true of what stands there for burstlet alone.
func isOwn(name string) bool {
	return name == host.LogMark || name == host.StorageLimits || strings.HasPrefix(name, host.EvictedMark)
}

// volumeDirs are the pod's volumes, and where they stand: without links on the way
// to it, as what is mounted is named.
func volumeDirs(pod host.PodDir) (dir string, volumes []string, err error) {
	dir, err = filepath.EvalSymlinks(filepath.Dir(pod.Volume("x")))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, err
	}
	volumes, err = directories(dir)
	return dir, volumes, err
}

// remote is true of file systems that another machine or process answers for.
func remote(fstype string) bool {
	return strings.HasPrefix(fstype, "nfs") || strings.HasPrefix(fstype, "fuse") ||
		slices.Contains([]string{"cifs", "smb3", "ceph", "9p", "afs"}, fstype)
}

// directories are those in dir; none where it is not there. Nothing is
// touched: one may be a mount that hangs.
func directories(dir string) ([]string, error) {
	if dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// step walks until all is done or the deadline has passed.
func (w *podWalk) step(ctx context.Context, deadline time.Time) (done bool, err error) {
	for ; w.next < len(w.trees); w.next++ {
		for t := w.trees[w.next]; !t.done; t.step() {
			if err := ctx.Err(); err != nil {
				return false, err
			}
			if time.Now().After(deadline) {
				return false, nil
			}
		}
	}
	return true, nil
}

// close ends a walk that may not be done.
func (w *podWalk) close() {
	if w == nil {
		return
	}
	for _, t := range w.trees {
		t.close()
	}
}

// result is the measurement. What vanished meanwhile is not in it, and neither is
// what could not be read: one broken directory must not hide all other pods.
func (w *podWalk) result() host.PodUsage {
	for _, t := range w.trees {
		if t.err != nil {
			continue
		}
		t.kind[t.name] = t.result()
		if t.volume && !t.memory {
			w.usage.OnDisk = append(w.usage.OnDisk, t.name)
		}
	}
	for _, f := range w.files {
		w.usage.Files.Used += f.Used
		w.usage.Files.InodesUsed += f.InodesUsed
	}
	slices.SortFunc(w.usage.OnDisk, cmp.Compare[string])
	w.usage.MeasuredAt = time.Now()
	return w.usage
}

func vanished(err error) bool {
	// The pod may put something else in a directory's place at any time.
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) ||
		errors.Is(err, unix.ESTALE)
}
