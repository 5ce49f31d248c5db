package sim_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
)

func volumeOf(name string, contents map[string]string) backend.VolumeSpec {
	v := backend.VolumeSpec{Pod: pod("u"), Name: name, Hash: "hash"}
	if contents != nil {
		v.Source.Secret = &corev1.SecretVolumeSource{}
	}
	for _, path := range slices.Sorted(maps.Keys(contents)) {
		v.Files = append(v.Files, backend.File{Path: path, Data: []byte(contents[path]), Mode: 0o644})
		v.Hash += contents[path]
	}
	return v
}

func withMounts(c backend.ContainerSpec, mounts ...corev1.VolumeMount) backend.ContainerSpec {
	c.Container.VolumeMounts = mounts
	return c
}

// run runs a command and returns its output, both streams, and its exit code.
func run(ctx context.Context, b backend.Backend, container, stdin string, argv ...string) (string, int32, error) {
	var out strings.Builder
	spec := backend.ExecSpec{Command: argv, Stdout: &out, Stderr: &out}
	if stdin != "" {
		spec.Stdin = strings.NewReader(stdin)
	}
	code, err := b.Exec.Exec(ctx, backend.ContainerRef{Pod: backend.Ref{UID: "u"}, Name: container}, spec)
	return out.String(), code, err
}

func wantOutput(t *testing.T, b backend.Backend, container, want string, argv ...string) {
	t.Helper()
	out, _, err := run(t.Context(), b, container, "", argv...)
	if err != nil || out != want {
		t.Errorf("%q in %s: %q, %v, want %q", argv, container, out, err, want)
	}
}

// mounted runs a container "c" that mounts volume "v" at /etc/v and one file of
// it at /one, and "e" at /scratch.
func mounted(t *testing.T) (*sim.Remote, backend.Backend) {
	t.Helper()
	ctx := t.Context()
	r := sim.New(sim.Config{Images: []string{"busybox"}, Record: true})
	b := r.Backend()
	must(t, b.Pods.Launch(ctx, ctx, spec("u", 0)))
	c := withMounts(container("c", "serve"),
		corev1.VolumeMount{Name: "v", MountPath: "/etc/v"},
		corev1.VolumeMount{Name: "v", MountPath: "/one", SubPath: "dir/one"},
		corev1.VolumeMount{Name: "e", MountPath: "/scratch"})
	err := b.Containers.Start(ctx, backend.Ref{UID: "u"}, c)
	if backend.Class(err) != "Transient" || !strings.Contains(err.Error(), `volume "v" is not placed`) {
		t.Errorf("start without volumes: %v", err)
	}
	must(t, b.Files.Place(ctx, volumeOf("v", map[string]string{"dir/one": "1", "two": "2"})))
	must(t, b.Files.Place(ctx, volumeOf("e", nil)))
	must(t, b.Containers.Start(ctx, backend.Ref{UID: "u"}, c))
	return r, b
}

// TestVolumes: containers see what is placed, through mounts and subPaths.
func TestVolumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, b := mounted(t)
		placed := time.Now()
		time.Sleep(time.Minute)
		must(t, b.Files.Place(t.Context(), volumeOf("v", map[string]string{"dir/one": "1", "two": "2"})))
		wantOutput(t, b, "c", "12", "cat", "/etc/v/dir/one", "/etc/v/two")
		wantOutput(t, b, "c", "1", "cat", "/one")
		wantOutput(t, b, "c", "dir\ntwo\n", "ls", "/etc/v")
		wantOutput(t, b, "c", "sh: can't create /etc/v/two: Read-only file system\n", "sh", "-c", "echo x > /etc/v/two")
		if p, ok := r.Volume("u", "v"); !ok || !p.At.Equal(placed) || len(p.Files) != 2 || string(p.Files[0].Data) != "1" {
			t.Errorf("the volume is %+v, %v", p, ok)
		}

		must(t, b.Files.Place(t.Context(), volumeOf("v", map[string]string{"dir/one": "3"})))
		wantOutput(t, b, "c", "3", "cat", "/etc/v/dir/one")
		wantOutput(t, b, "c", "1", "cat", "/one") // a subPath shows what was there at the start
		wantOutput(t, b, "c", "dir\n", "ls", "/etc/v")
		if p := r.Placements("u", "v"); len(p) != 2 || len(p[0].Files) != 2 || len(p[1].Files) != 1 {
			t.Errorf("placements: %+v", p)
		}
	})
}

// TestVolumesOutliveAttempts: only Clear removes them, and not under a running
// container.
func TestVolumesOutliveAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		r, b := mounted(t)
		ref := spec("u", 0).Ref()
		if err := b.Files.Clear(ctx, ref); err == nil || !strings.Contains(err.Error(), "busy") {
			t.Errorf("clear under a running container: %v", err)
		}
		must(t, b.Pods.Remove(ctx, ref))
		facts, err := r.Backend().Files.Volumes(ctx)
		if must(t, err); len(facts) != 2 || facts[0].Name != "e" ||
			facts[1].Pod != (backend.Ref{UID: "u", Namespace: "ns", Name: "pod-u"}) {
			t.Errorf("volumes of a removed pod: %+v", facts)
		}
		if others, err := r.BackendFor("two").Files.Volumes(ctx); err != nil || len(others) != 0 {
			t.Errorf("volumes of another node: %+v, %v", others, err)
		}
		must(t, b.Files.Clear(ctx, ref))
		wantClass(t, b.Files.Clear(ctx, ref), "NotFound")
		if _, ok := r.Volume("u", "v"); ok || len(r.Placements("u", "v")) != 1 {
			t.Error("a cleared volume is there, or its history is not")
		}
		var kinds []sim.Kind
		for _, e := range r.History() {
			kinds = append(kinds, e.Kind)
		}
		if want := []sim.Kind{
			sim.Launched, sim.Placed, sim.Placed, sim.Started, sim.Removed, sim.Cleared,
		}; !slices.Equal(kinds, want) {
			t.Errorf("history: %v, want %v", kinds, want)
		}
	})
}

// TestSharedVolume: what one container writes to an emptyDir another reads, and
// it outlives its writer.
func TestSharedVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		b := sim.New(sim.Config{Images: []string{"busybox"}}).Backend()
		ref := backend.Ref{UID: "u"}
		must(t, b.Pods.Launch(ctx, ctx, spec("u", 0)))
		must(t, b.Files.Place(ctx, volumeOf("e", nil)))
		writer := withMounts(
			initContainer("w", "sh", "-c", "echo one > /w/f; sleep 2; echo two >> /w/f; sleep 2; echo three >> /w/f"),
			corev1.VolumeMount{Name: "e", MountPath: "/w"},
		)
		reader := withMounts(container("r", "serve"), corev1.VolumeMount{Name: "e", MountPath: "/r"})
		must(t, b.Containers.Start(ctx, ref, writer))
		must(t, b.Containers.Start(ctx, ref, reader))
		wantOutput(t, b, "r", "one\n", "cat", "/r/f")
		time.Sleep(3 * time.Second)
		wantOutput(t, b, "r", "one\ntwo\n", "cat", "/r/f")
		must(t, b.Containers.Stop(ctx, backend.ContainerRef{Pod: ref, Name: "w"}, 0))
		must(t, b.Containers.Remove(ctx, backend.ContainerRef{Pod: ref, Name: "w"}))
		time.Sleep(3 * time.Second)
		wantOutput(t, b, "r", "four\n", "sh", "-c", "echo four > /r/g; cat /r/g")
		wantOutput(t, b, "r", "one\ntwo\n", "cat", "/r/f") // the third was never written
		wantOutput(t, b, "r", "f\ng\n", "ls", "/r")
		later := withMounts(container("l", "sh", "-c", "cat /l/g; rm /l/f"), corev1.VolumeMount{Name: "e", MountPath: "/l"})
		must(t, b.Containers.Start(ctx, ref, later))
		wantOutput(t, b, "r", "g\n", "ls", "/r")
	})
}

func TestVolumesThatCannotBe(t *testing.T) {
	b := sim.New(sim.Config{}).Backend()
	for _, paths := range [][]string{{"../x"}, {"/x"}, {"a//b"}, {"."}, {"a", "a"}, {"a", "a/b"}} {
		v := backend.VolumeSpec{Pod: pod("u"), Name: "v"}
		for _, p := range paths {
			v.Files = append(v.Files, backend.File{Path: p})
		}
		wantClass(t, b.Files.Place(t.Context(), v), "Invalid")
	}
	wantClass(t, b.Files.Place(t.Context(), backend.VolumeSpec{Pod: pod("u")}), "Invalid")
	wantClass(t, b.Files.Place(t.Context(), backend.VolumeSpec{Name: "v"}), "Invalid")
}

// TestVolumesInPodUnit: contents travel in the launch.
func TestVolumesInPodUnit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		r := sim.New(sim.Config{PodUnit: true, Record: true})
		b := r.Backend()
		launch := spec("u", 0, withMounts(container("c", "serve"), corev1.VolumeMount{Name: "v", MountPath: "/v"}))
		wantClass(t, b.Pods.Launch(ctx, ctx, launch), "Invalid")
		if n := len(r.Facts()); n != 0 || b.Files != nil {
			t.Errorf("%d pods, Files %v", n, b.Files)
		}
		launch.Volumes = []backend.VolumeSpec{volumeOf("v", map[string]string{"f": "contents"})}
		must(t, b.Pods.Launch(ctx, ctx, launch))
		wantOutput(t, b, "c", "contents", "cat", "/v/f")
		if p, ok := r.Volume("u", "v"); !ok || string(p.Files[0].Data) != "contents" || len(r.Placements("u", "v")) != 1 {
			t.Errorf("the volume is %+v, %v", p, ok)
		}

		mount := corev1.VolumeMount{Name: "e", MountPath: "/e"}
		launch = spec("u", 1,
			withMounts(initContainer("i", "sh", "-c", "sleep 1; echo made > /e/f"), mount),
			withMounts(container("c", "sh", "-c", "cat /e/f > /copy; cat /copy /e/f > /dev/termination-log"), mount))
		launch.Volumes = []backend.VolumeSpec{volumeOf("e", nil)}
		must(t, b.Pods.Launch(ctx, ctx, launch))
		time.Sleep(time.Second)
		if c := r.Facts()[1].Containers[1]; c.Message != "made\nmade\n" {
			t.Errorf("what an init container left: %+v", c)
		}

		launch = spec("u", 0, withMounts(container("c", "serve"), corev1.VolumeMount{Name: "v", MountPath: "/v"}))
		launch.Volumes = []backend.VolumeSpec{volumeOf("v", map[string]string{"f": "contents"})}
		b = sim.New(sim.Config{PodUnit: true, Files: true}).Backend()
		wantClass(t, b.Pods.Launch(ctx, ctx, launch), "Transient") // its volumes are ignored, and may yet be placed
		must(t, b.Files.Place(ctx, launch.Volumes[0]))
		must(t, b.Pods.Launch(ctx, ctx, launch))
		wantOutput(t, b, "c", "contents", "cat", "/v/f")
	})
}

// TestImageVolumes: a container sees the files of an image that it mounts, or of a directory
// of it, cannot change them, and keeps the image.
func TestImageVolumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		const image = "r.example/data:1"
		b := sim.New(sim.Config{Images: []string{"busybox"}}).Backend()
		launch := spec("u", 0)
		launch.Pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			Image: &corev1.ImageVolumeSource{Reference: image},
		}}}
		must(t, b.Pods.Launch(ctx, ctx, launch))
		start := func(subPath string) error {
			c := withMounts(container("c", "serve"),
				corev1.VolumeMount{Name: "data", MountPath: "/data"}, corev1.VolumeMount{
					Name: "data", MountPath: "/part", SubPath: subPath,
				})
			c.Pod, c.ImageVolumes = launch.Pod, []backend.ImageVolume{{Name: "data", Reference: image}}
			return b.Containers.Start(ctx, backend.Ref{UID: "u"}, c)
		}
		if err := start("etc"); err == nil || !strings.Contains(err.Error(), "ImageVolumeMountFailed") {
			t.Errorf("an image that is not there: %v", err)
		}
		pulled, err := b.Images.Pull(ctx, image, nil)
		must(t, err)
		for _, subPath := range []string{"etc/os-release", "no/such"} {
			if err := start(subPath); err == nil || !strings.Contains(err.Error(), "ImageVolumeMountFailed") {
				t.Errorf("subPath %s: %v", subPath, err)
			}
		}
		must(t, start("etc"))
		wantOutput(t, b, "c", "ID=sim\nPRETTY_NAME=\"r.example/data:1\"\n", "cat", "/data/etc/os-release")
		wantOutput(t, b, "c", "ID=sim\nPRETTY_NAME=\"r.example/data:1\"\n", "cat", "/part/os-release")
		wantOutput(t, b, "c", "ID=sim\nPRETTY_NAME=\"busybox:latest\"\n", "cat", "/etc/os-release")
		wantOutput(t, b, "c", "sh: can't create /data/x: Read-only file system\n", "sh", "-c", "echo x > /data/x")
		if err := b.Store.Remove(ctx, pulled.ID); err == nil || !strings.Contains(err.Error(), "uses it") {
			t.Errorf("remove an image that is mounted: %v", err)
		}
	})
}
