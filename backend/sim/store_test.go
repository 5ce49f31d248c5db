package sim_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
)

// TestImagesTakeRoom: a pull that does not fit fails as on a host, one of what is
// there does not, and removal makes room.
func TestImagesTakeRoom(t *testing.T) {
	b := sim.New(sim.Config{
		Images: []string{"a"}, Pinned: []string{"a"}, ImageDisk: 5, ImageSize: func(string) uint64 { return 2 },
	}).Backend()
	ctx := t.Context()
	pulled, err := b.Images.Pull(ctx, "b:1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Images.Pull(ctx, "c", nil); backend.Class(err) != "Transient" ||
		!strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("a pull for which there is no room: %v", err)
	}
	if _, err := b.Images.Pull(ctx, "a", nil); err != nil {
		t.Errorf("a pull of what is there: %v", err)
	}
	disk, err := b.Store.Disk(ctx)
	want := backend.FilesystemUsage{Capacity: new(uint64(5)), Used: new(uint64(4)), Available: new(uint64(1))}
	if diff := cmp.Diff(want, disk); err != nil || diff != "" {
		t.Errorf("disk: %v (-want +got):\n%s", err, diff)
	}
	images, err := b.Store.List(ctx)
	if err != nil || len(images) != 2 || !images[0].Pinned || images[1].Pinned || images[1].Size != 2 {
		t.Errorf("images %+v, %v", images, err)
	}
	err = b.Store.Remove(ctx, pulled.ID)
	if _, again := b.Images.Pull(ctx, "c", nil); err != nil || again != nil {
		t.Errorf("removal: %v, a pull after it: %v", err, again)
	}
}

// TestVolumesAreMeasured: what was placed, and what containers wrote since, in both
// granularities; what is on the disk counts for the pod.
func TestVolumesAreMeasured(t *testing.T) {
	for name, podUnit := range map[string]bool{"containers": false, "pod": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := sim.New(sim.Config{PodUnit: podUnit, Images: []string{"i"}}).Backend()
				pod := &corev1.Pod{}
				pod.UID, pod.Namespace, pod.Name = "u", "ns", "p"
				volume := func(name string, source corev1.VolumeSource, files ...backend.File) backend.VolumeSpec {
					return backend.VolumeSpec{Pod: pod, Name: name, Source: source, Files: files, Hash: "h"}
				}
				volumes := []backend.VolumeSpec{
					volume("disk", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
					volume("memory", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}),
					volume(
						"config", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}},
						backend.File{Path: "f", Data: []byte("12345")},
					),
				}
				c := backend.ContainerSpec{Pod: pod, Container: corev1.Container{
					Name: "a", Image: "i",
					Command: []string{
						"sh", "-c",
						"echo 12 > /d/x; echo 3456 > /m/y; sleep 10; echo 345 >> /d/x; echo 1 > /d/z; rm /m/y; sleep infinity",
					},
					VolumeMounts: []corev1.VolumeMount{{Name: "disk", MountPath: "/d"}, {Name: "memory", MountPath: "/m"}},
				}}
				launch := backend.LaunchSpec{Pod: pod}
				if podUnit {
					launch.Containers, launch.Volumes = []backend.ContainerSpec{c}, volumes
				} else {
					for _, v := range volumes {
						if err := b.Files.Place(t.Context(), v); err != nil {
							t.Fatal(err)
						}
					}
				}
				if err := b.Pods.Launch(t.Context(), t.Context(), launch); err != nil {
					t.Fatal(err)
				}
				if !podUnit {
					if err := b.Containers.Start(t.Context(), launch.Ref(), c); err != nil {
						t.Fatal(err)
					}
				}
				want := func(disk, memory, pod uint64) {
					t.Helper()
					facts, err := b.Stats.Stats(t.Context())
					if err != nil || len(facts.Pods) != 1 {
						t.Fatalf("%+v, %v", facts, err)
					}
					p := facts.Pods[0]
					if *p.Volumes["disk"].Used != disk || *p.Volumes["memory"].Used != memory || *p.Volumes["config"].Used != 5 ||
						*p.EphemeralStorage.Used != pod {
						t.Errorf("volumes %v %v %v, pod %v; want %d, %d, 5, %d", *p.Volumes["disk"].Used, *p.Volumes["memory"].Used,
							*p.Volumes["config"].Used, *p.EphemeralStorage.Used, disk, memory, pod)
					}
					if known := facts.Images != nil; known == podUnit {
						t.Errorf("the file system of images: %+v", facts.Images)
					}
				}
				time.Sleep(time.Second)
				want(3, 5, 8)
				time.Sleep(10 * time.Second)
				want(9, 0, 14)
			})
		})
	}
}
