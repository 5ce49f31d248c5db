package provider

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

const (
	// imagesEvery is how often images are listed for the Node's status (the kubelet's
	// image cache).
	imagesEvery = 30 * time.Second
	// defaultMaxImages is the kubelet's nodeStatusMaxImages.
	defaultMaxImages = 50
	// maxImageNames is how many names of an image the status has (kubelet:
	// MaxNamesPerImageInNodeStatus).
	maxImageNames = 5
	// maxImagesSize bounds the list, in bytes of JSON: the framework keeps the status as an
	// annotation too, and all annotations of an object have 256 KiB.
	maxImagesSize = 128 << 10
	// imageFrame and nameFrame are more than JSON adds to an image and to each of its names.
	imageFrame, nameFrame = 48, 4
)

// statusImages are the largest images, at most so many, all that fit if most is negative.
// The same images give the same list.
func statusImages(facts []backend.ImageFacts, most int) []corev1.ContainerImage {
	facts = slices.Clone(facts)
	slices.SortFunc(facts, func(a, b backend.ImageFacts) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), strings.Compare(a.ID, b.ID))
	})
	if most >= 0 && most < len(facts) {
		facts = facts[:most]
	}
	images, size := make([]corev1.ContainerImage, 0, len(facts)), 0
	for _, f := range facts {
		names := statusNames(f.Names)
		size += imageFrame
		for _, name := range names {
			size += len(name) + nameFrame
		}
		if size > maxImagesSize {
			break
		}
		//nolint:gosec // bytes on a disk
		images = append(images, corev1.ContainerImage{Names: names, SizeBytes: int64(f.Size)})
	}
	return images
}

// statusNames are digests before tags, as a kubelet has them.
func statusNames(names []string) []string {
	names = slices.Clone(names)
	tag := func(name string) int {
		if strings.Contains(name, "@") {
			return 0
		}
		return 1
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(tag(a), tag(b)), strings.Compare(a, b))
	})
	return names[:min(len(names), maxImageNames)]
}

// inventory keeps what images the remote has. It belongs to the goroutine that
// describes the remote; others read what that publishes.
type inventory struct {
	store backend.ImageStore // nil where images are not ours
	most  int
	next  time.Time
	// failing is true when the last listing did.
	failing bool
}

// list returns the images for the status; false if it is not yet time to look, or
// the remote does not say. Then the last answer stays.
func (i *inventory) list(ctx context.Context) ([]corev1.ContainerImage, bool) {
	now := time.Now()
	switch {
	case i.store == nil || now.Before(i.next):
		return nil, false
	case i.most == 0:
		return []corev1.ContainerImage{}, true
	}
	callCtx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	facts, err := i.store.List(callCtx)
	if err != nil {
		if ctx.Err() == nil && !i.failing {
			log.G(ctx).WithError(err).Warn("the remote does not list its images")
		}
		i.failing = true
		return nil, false
	}
	i.failing, i.next = false, now.Add(imagesEvery)
	return statusImages(facts, i.most), true
}
