package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Beside burstlet's own image stands that of tasks, in the archive's directory and in the
// registry, with the program that each task runs and nothing else of burstlet.
func TestTheImageOfTasksStandsBesideTheOther(t *testing.T) {
	host := privateRegistry(t, true)
	path, told := made(
		t, options{name: "docker.io/example/burstlet:v1", push: []string{host + "/team/burstlet:v1"}}, testRelease(),
	)
	archive := strings.TrimSuffix(path, ".tar") + "-task.tar"
	index, descriptor := inner(t, unpacked(t, archive))
	if got := descriptor.Annotations["io.containerd.image.name"]; got != "docker.io/example/burstlet-task:v1" {
		t.Errorf("its name is %s", got)
	}
	images := imagesOf(t, index)
	if got := slices.Sorted(maps.Keys(images)); !slices.Equal(got, both) {
		t.Errorf("platforms %q", got)
	}
	for platform, image := range images {
		got, err := image.ConfigFile()
		if err != nil || !slices.Equal(got.Config.Entrypoint, []string{"/burstlet-task"}) || len(got.Config.Cmd) > 0 {
			t.Errorf("%s runs %+v, %v", platform, got, err)
		}
		content := contentOf(t, image)
		if content["/burstlet-task"] == nil || content["/etc/ssl/certs/ca-certificates.crt"] == nil ||
			content["/bin"] != nil {
			t.Errorf("%s has %v", platform, slices.Sorted(maps.Keys(content)))
		}
	}
	parsed, err := name.ParseReference(host + "/team/burstlet-task:v1")
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Index(
		parsed, remote.WithAuth(&authn.Basic{Username: "me", Password: password}), remote.WithContext(t.Context()),
	)
	if err != nil || digestOf(t, pulled) != digestOf(t, index) {
		t.Errorf("it is not in the registry: %v", err)
	}
	task, own := strings.Index(told, "pushed "+parsed.String()), strings.Index(told, "pushed "+host+"/team/burstlet:v1")
	if task < 0 || own < task {
		t.Errorf("burstlet's own is published before it:\n%s", told)
	}
}

func TestTheImageOfTasksIsLeftOut(t *testing.T) {
	o := options{mainOnly: true, name: "docker.io/example/burstlet:v1"}
	outputs, err := o.outputs()
	if err != nil || len(outputs) != 1 || outputs[0].kind.title != "burstlet" {
		t.Errorf("%+v, %v", outputs, err)
	}
	if _, told := made(t, o, testRelease()); strings.Contains(told, "-task") {
		t.Errorf("it told\n%s", told)
	}
}

// maxTaskImage is what a task may have to pull before it starts.
const maxTaskImage = 6_000_000

// Every task pulls this image: of the real program, for each machine.
func TestTheImageOfTasksIsSmall(t *testing.T) {
	dir, err := moduleDir(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	indexes, err := buildIndexes(t.Context(), testRelease(), both, goBuild(dir, "v1"), taskKind)
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]bool{}
	for platform, image := range imagesOf(t, indexes[0]) {
		manifest, err := image.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		size := pullSize(manifest)
		if t.Logf("%s: %d bytes to pull", platform, size); size > maxTaskImage {
			t.Errorf("%s: %d bytes to pull", platform, size)
		}
		sizes[platform] = true
	}
	if d := cmp.Diff(map[string]bool{"linux/amd64": true, "linux/arm64": true}, sizes); d != "" {
		t.Error(d)
	}
}
