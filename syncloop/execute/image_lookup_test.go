package execute

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/images"
	"github.com/burstlet/burstlet/syncloop/plan"
)

// finder has every image and counts who asks.
type finder struct {
	backend.Images
	asked int
	fail  func()
}

func (f *finder) Find(context.Context, string) (string, error) {
	f.asked++
	if f.fail != nil {
		f.fail()
	}
	return "id", nil
}

// store has some images, and registries that refuse the others.
type store struct{ has map[string]bool }

func (s store) Find(_ context.Context, image string) (string, error) {
	if s.has[image] {
		return "id-" + image, nil
	}
	return "", backend.ErrNotFound
}

func (s store) Pull(context.Context, string, []backend.Credential) (backend.PulledImage, error) {
	return backend.PulledImage{}, errors.New("401 Unauthorized")
}

// All images that a container mounts are tried; the last that fails keeps it from starting,
// and the plan's own spec stays as it is.
func TestImagesThatAContainerMounts(t *testing.T) {
	volume := func(name, image string, policy corev1.PullPolicy) backend.ImageVolume {
		return backend.ImageVolume{Name: name, Reference: image, PullPolicy: policy}
	}
	const there, never, pull = corev1.PullIfNotPresent, corev1.PullNever, corev1.PullAlways
	for _, tt := range []struct {
		name    string
		volumes []backend.ImageVolume
		image   string
		reason  string
		events  []string
	}{
		{"none", nil, "", "", nil},
		{
			"there",
			[]backend.ImageVolume{volume("v", "a", there), volume("w", "b", never)},
			"", "",
			[]string{" Pulled", " Pulled"},
		},
		{"refused", []backend.ImageVolume{volume("v", "a", pull), volume("w", "b", there)}, "a", "ErrImagePull", []string{
			" Pulling", " Failed", "c Failed", " Pulled",
		}},
		{
			"the last counts",
			[]backend.ImageVolume{volume("v", "a", pull), volume("w", "z", never)},
			"z", "ErrImageNeverPull",
			[]string{" Pulling", " Failed", "c Failed", " ErrImageNeverPull", "c Failed"},
		},
		{
			"no name",
			[]backend.ImageVolume{volume("v", "A:A:A", there)},
			"A:A:A", "InvalidImageName",
			[]string{" InspectFailed", "c Failed"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []string
				x := &Runner{
					Images: images.New(store{map[string]bool{"a": true, "b": true}}, nil, 1, 0),
					Record: func(container, _, reason, _ string) { told = append(told, container+" "+reason) },
				}
				spec := backend.ContainerSpec{Container: corev1.Container{Name: "c"}, ImageVolumes: slices.Clone(tt.volumes)}
				plans := spec.ImageVolumes
				image, err := x.imageVolumes(t.Context(), &spec)
				if image != tt.image || images.Reason(err) != tt.reason || !slices.Equal(told, tt.events) {
					t.Errorf("image %q, reason %q (%v), Events %q", image, images.Reason(err), err, told)
				}
				for i, v := range spec.ImageVolumes {
					if err == nil && v.ImageID != "id-"+v.Reference || plans[i].ImageID != "" {
						t.Errorf("volume %+v, the plan's %+v", v, plans[i])
					}
				}
			})
		})
	}
}

func TestImageFoundAhead(t *testing.T) {
	next := func(name string, policy corev1.PullPolicy, pull bool) [][]plan.Action {
		c := corev1.Container{Name: name, Image: "busybox", ImagePullPolicy: policy}
		return [][]plan.Action{{plan.StartContainer{Spec: backend.ContainerSpec{Container: c}, Pull: pull}}}
	}
	for _, tt := range []struct {
		name  string
		todo  [][]plan.Action
		fail  func()
		later time.Duration
		want  int // questions, both times
	}{
		{name: "is used", todo: next("a", corev1.PullIfNotPresent, true), later: time.Second, want: 1},
		{name: "long ago: asked again", todo: next("a", corev1.PullIfNotPresent, true), later: lookupValidFor, want: 2},
		{name: "for another container", todo: next("b", corev1.PullIfNotPresent, true), want: 2},
		{name: "nothing is started next", todo: [][]plan.Action{{plan.Launch{}}}, want: 1},
		{name: "nothing comes next", want: 1},
		{name: "the remote pulls by itself", todo: next("a", corev1.PullIfNotPresent, false), want: 1},
		{name: "pulled in any case", todo: next("a", corev1.PullAlways, true), want: 1},
		{
			name: "a panic is not the end", todo: next("a", corev1.PullIfNotPresent, true), fail: func() { panic("down") },
			want: 2,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				remote := &finder{fail: tt.fail}
				var told []string
				x := &Runner{
					Images: images.New(remote, nil, 1, 0), Record: func(_, _, reason, _ string) { told = append(told, reason) },
				}
				x.lookedUp = x.startLookup(t.Context(), tt.todo).end(false)
				if remote.fail = nil; len(told) > 0 {
					t.Errorf("the user was told %v before the container's turn", told)
				}
				time.Sleep(tt.later)
				c := corev1.Container{Name: "a", Image: "busybox", ImagePullPolicy: corev1.PullIfNotPresent}
				id, err := x.image(t.Context(), &backend.ContainerSpec{Container: c})
				if id != "id" || err != nil || remote.asked != tt.want || len(told) != 1 {
					t.Errorf("%q, %v after %d questions, want %d; told %v", id, err, remote.asked, tt.want, told)
				}
			})
		})
	}
}
