package backendtest

import (
	"slices"
	"strings"

	"github.com/burstlet/burstlet/backend"
)

// stored returns the suite's image as the store lists it; nil if it is not there.
func (s *suite) stored(id string) *backend.ImageFacts {
	s.Helper()
	facts, err := s.Store.List(s.Context())
	s.must(err)
	var found *backend.ImageFacts
	ids := map[string]bool{}
	for i := range facts {
		f := &facts[i]
		if f.ID == "" || ids[f.ID] {
			s.Errorf("image %+v has no id, or one that another has", *f)
		}
		ids[f.ID] = true
		if f.ID == id {
			found = f
		}
	}
	return found
}

// pulled makes sure that the suite's image is there, and returns its id.
func (s *suite) pulled() string {
	s.Helper()
	pulled, err := s.Images.Pull(s.Context(), s.f.Image, nil)
	s.must(err)
	return pulled.ID
}

// storeLists: an image is listed under the id that Pull and Find return, with its
// size and the name that it was pulled by.
func storeLists(s *suite) {
	id := s.pulled()
	found, err := s.Images.Find(s.Context(), s.f.Image)
	s.must(err)
	if found != id {
		s.Errorf("found as %q, pulled as %q", found, id)
	}
	f := s.stored(id)
	if f == nil {
		s.Fatalf("the image that was pulled as %q is not listed", id)
	}
	if f.Size == 0 {
		s.Errorf("it has no size: %+v", *f)
	}
	if !slices.ContainsFunc(f.Names, func(name string) bool { return strings.Contains(name, repositoryOf(s.f.Image)) }) {
		s.Errorf("none of its names is %s: %q", s.f.Image, f.Names)
	}
}

// repositoryOf is an image's name without tag and digest.
func repositoryOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		image = image[:i]
	}
	return image
}

// storeRemoves: an image without containers goes, and is pulled again when it is
// wanted.
func storeRemoves(s *suite) {
	if s.f.SpareImage == "" {
		s.skipped = "SpareImage is empty"
		return
	}
	for range 2 {
		pulled, err := s.Images.Pull(s.Context(), s.f.SpareImage, nil)
		s.must(err)
		id := pulled.ID
		switch f := s.stored(id); {
		case f == nil || f.Used:
			s.Errorf("an image that no container has is listed as %+v", f)
		case f.Size != pulled.Size:
			s.Errorf("an image of %d bytes is listed with %d", pulled.Size, f.Size)
		}
		s.must(s.Store.Remove(s.Context(), id))
		if f := s.stored(id); f != nil {
			s.Errorf("it is there after its removal: %+v", *f)
		}
		_, err = s.Images.Find(s.Context(), s.f.SpareImage)
		s.wantClass("find a removed image", err, backend.ErrNotFound)
		s.wantClass("remove it again", s.Store.Remove(s.Context(), id), backend.ErrNotFound)
	}
}

// storeKeepsUsed: an image is shown as used while a container has it, and is then
// not removed; its pod runs on.
func storeKeepsUsed(s *suite) {
	ref := s.run(s.pod(untilTerm), 0)
	s.awaitRunning(ref)
	id := s.pulled()
	f := s.stored(id)
	switch {
	case f == nil:
		s.Fatalf("image %q of a running container is not listed", id)
	case !f.Used:
		s.Errorf("an image that a container runs from is not used: %+v", *f)
	}
	if err := s.Store.Remove(s.Context(), id); err == nil || backend.Class(err) == backend.Class(backend.ErrNotFound) {
		s.Errorf("removing an image that is used: %v, want a refusal", err)
	}
	if s.stored(id) == nil {
		s.Error("an image that is used was removed")
	}
	s.awaitRunning(ref)
}

func storeUnknown(s *suite) {
	err := s.Store.Remove(s.Context(), "sha256:"+strings.Repeat("5", 64))
	s.wantClass("remove an image that is not there", err, backend.ErrNotFound)
}

// storeDisk: as much as is available fits.
func storeDisk(s *suite) {
	usage, err := s.Store.Disk(s.Context())
	s.must(err)
	switch {
	case usage.Capacity == nil || usage.Available == nil || *usage.Capacity == 0:
		s.Errorf(
			"capacity %s, available %s: the garbage of images is judged by both", number(usage.Capacity),
			number(usage.Available),
		)
	case *usage.Available > *usage.Capacity:
		s.Errorf("%d bytes are available of %d", *usage.Available, *usage.Capacity)
	}
}

// pullRecordsAfterReopen: what was saved last is there for the next process.
func pullRecordsAfterReopen(s *suite) {
	for _, data := range []string{`{"one":1}`, `{"two":22}`} {
		s.must(s.PullRecords.Save(s.Context(), []byte(data)))
		s.reopen()
		got, err := s.PullRecords.Load(s.Context())
		s.must(err)
		if string(got) != data {
			s.Errorf("loaded %q, saved %q", got, data)
		}
	}
}
