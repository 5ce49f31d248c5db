package imagegc

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/images/reference"
)

// Policy says which images are garbage, and when (kubelet: ImageGCPolicy).
type Policy struct {
	// HighThresholdPercent of the disk in use begins a collection, which ends at
	// LowThresholdPercent. With a high one of 100 the disk begins none.
	HighThresholdPercent, LowThresholdPercent int
	// MinAge is how long an image is known before it may go to make room.
	MinAge time.Duration
	// MaxAge is how long an image that nobody uses may stay; 0 is without limit.
	MaxAge time.Duration
}

// Off is true where no image is ever garbage.
func (p Policy) Off() bool { return p.HighThresholdPercent >= 100 && p.MaxAge == 0 }

// excess is how much is to be freed of a disk: nothing below the high threshold,
// else what leads to the low one. One that is full for pulls, by whatever measure,
// counts as over the threshold.
func (p Policy) excess(disk backend.FilesystemUsage, full bool) (bytes uint64, err error) {
	used, capacity, available := usedPercent(disk)
	switch {
	case capacity == 0:
		return 0, errors.New("invalid capacity 0 on image filesystem")
	case p.HighThresholdPercent >= 100, used < p.HighThresholdPercent && !full:
		return 0, nil
	}
	free := capacity * uint64(100-p.LowThresholdPercent) / 100 //nolint:gosec // a percentage
	return free - min(free, available), nil
}

// usedPercent is rounded as the kubelet does: a full per cent counts that is not
// wholly free.
func usedPercent(disk backend.FilesystemUsage) (percent int, capacity, available uint64) {
	if disk.Capacity == nil || *disk.Capacity == 0 {
		return 0, 0, 0
	}
	capacity = *disk.Capacity
	if disk.Available != nil {
		available = min(*disk.Available, capacity)
	}
	return 100 - int(available*100/capacity), capacity, available //nolint:gosec // a percentage
}

// freeFailed is the kubelet's message for a disk that unused images did not empty.
func freeFailed(disk backend.FilesystemUsage, freed uint64) string {
	used, capacity, _ := usedPercent(disk)
	return fmt.Sprintf("Insufficient free disk space on the node's image filesystem (%d%% of %s used). "+
		"Failed to free sufficient space by deleting unused images (freed %d bytes). "+
		"Investigate disk usage, as it could be used by active images, logs, volumes, or other data.",
		used, formatSize(capacity), freed)
}

// formatSize writes bytes as the kubelet's message does.
func formatSize(bytes uint64) string {
	size := float64(bytes)
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if size < 1024 && unit == "B" {
			return fmt.Sprintf("%d B", bytes)
		}
		if size < 1024 {
			return fmt.Sprintf("%.1f %s", size, unit)
		}
		size /= 1024
	}
	return fmt.Sprintf("%.1f TiB", size)
}

// record is what is known of an image that is there.
type record struct {
	firstDetected time.Time
	// lastUsed is when it was last seen in use; zero if it never was.
	lastUsed time.Time
	names    []string
	size     uint64
	// kept is true for one that may not be removed now.
	kept bool
}

// records are by the images' ids.
type records map[string]*record

// detect takes a listing over: what is new is detected now, what is used or wanted
// was last used now, what is gone is forgotten.
func (r records) detect(facts []backend.ImageFacts, needed wanted, now time.Time) {
	present := make(map[string]bool, len(facts))
	for _, f := range facts {
		present[f.ID] = true
		image := r[f.ID]
		if image == nil {
			image = &record{firstDetected: now}
			r[f.ID] = image
		}
		inUse := f.Used || needed.has(f.ID, f.Names)
		if inUse {
			image.lastUsed = now
		}
		image.names, image.size, image.kept = f.Names, f.Size, inUse || f.Pinned
	}
	for id := range r {
		if !present[id] {
			delete(r, id)
		}
	}
}

// candidate is an image that may be removed.
type candidate struct {
	id string
	record
}

// inOrder are the images that may be removed, those unused for longest first, of
// these the ones known for longest.
func (r records) inOrder() []candidate {
	var out []candidate
	for id, image := range r {
		if !image.kept {
			out = append(out, candidate{id, *image})
		}
	}
	slices.SortFunc(out, func(a, b candidate) int {
		return cmp.Or(a.lastUsed.Compare(b.lastUsed), a.firstDetected.Compare(b.firstDetected), strings.Compare(a.id, b.id))
	})
	return out
}

// ripe is when the next image becomes old enough to be removed, at the latest the
// next regular collection.
func (r records) ripe(minAge time.Duration, now time.Time) time.Duration {
	next := period
	for _, image := range r.inOrder() {
		if left := minAge - now.Sub(image.firstDetected); left > 0 {
			next = min(next, left)
		}
	}
	return next
}

// wanted are images by every name that they may be listed under.
type wanted map[string]bool

func newWanted(images []string) wanted {
	w := make(wanted, len(images))
	for _, image := range images {
		for _, name := range namesOf(image) {
			w[name] = true
		}
	}
	return w
}

func (w wanted) has(id string, names []string) bool {
	return w[id] || slices.ContainsFunc(names, func(name string) bool {
		return slices.ContainsFunc(namesOf(name), func(n string) bool { return w[n] })
	})
}

// namesOf are an image's name as it stands, with what it leaves out, and by its
// digest alone where it has one: that is what a runtime keeps.
func namesOf(image string) []string {
	names := []string{image}
	ref, err := reference.Parse(image)
	if err != nil {
		return names // an id
	}
	names = append(names, ref.String())
	if _, digest, ok := strings.Cut(ref.Suffix, "@"); ok {
		names = append(names, ref.Repository+"@"+digest)
	}
	return names
}
