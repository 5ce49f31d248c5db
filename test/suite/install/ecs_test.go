package install

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"sigs.k8s.io/yaml"

	"github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/fakeaws/ecsprocess"
	"github.com/burstlet/burstlet/test/kit/logs"
	"github.com/burstlet/burstlet/test/parts/burstletimage"
	"github.com/burstlet/burstlet/test/parts/images"
)

// registryName is the domain of all images here.
const registryName = "registry.burstlet.test"

// installECS: the same in short with pods as tasks. The release's own image is
// that of the helper containers.
func installECS(t *testing.T, w *world) {
	i := newInstalled(t, w, "ecs", "fargate", (&net.Dialer{}).DialContext)
	v := ecsValues(t, i.node, w)
	i.helm.run(t, "install", append(withValues(t, v), "--create-namespace")...)
	i.awaitNode(i.node)
	i.begin()
	i.awaitLog(i.pods()[0])
	i.use(i.pods()[0])
	v["config"].(values)["logging"] = values{"level": "debug"}
	i.upgrade(v)
	i.helm.run(t, "uninstall")
	nothingOn(t, w.cloud)
	i.endsClean()
}

// newCloud starts an ECS that runs containers, and a registry of all images.
func newCloud(t *testing.T, archive string) (*ecsprocess.Process, *ecsprocess.Registry) {
	t.Helper()
	all, err := images.All()
	if err != nil {
		t.Fatal(err)
	}
	own := builtImage(t, burstletimage.TaskArchive(archive))
	all[burstletimage.TaskRef] = own
	mirror, err := ecsprocess.ServeImages("0.0.0.0", all)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := mirror.Close(); err != nil {
			t.Error(err)
		}
	})
	program, _, err := ecsprocess.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	log := &logs.Buffer{}
	log.ShowAtFailure(t, "ECS")
	cloud, err := ecsprocess.Start(t.Context(), ecsprocess.Config{
		Program: program, Images: map[string]v1.Image{burstletimage.TaskRef: own}, Log: log,
		LogGroups: []string{ecsprocess.LogGroup}, Queues: []string{ecsprocess.Queue},
		Args: []string{"--provision", "300ms", "--deprovision", "1s"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cloud.Stop(context.Background()); err != nil { // it is bounded by itself
			t.Error(err)
		}
	})
	return cloud, mirror
}

// ecsValues are those of a release with one node of tasks.
func ecsValues(t *testing.T, node string, w *world) values {
	t.Helper()
	var backend values
	section := w.cloud.Section(
		fmt.Sprintf("registryMirrors: {%q: \"http://%s:%d\"}", registryName, w.c.Machine(), w.mirror.Port), "settle: 5s",
	)
	if err := yaml.Unmarshal([]byte(section), &backend); err != nil {
		t.Fatal(err)
	}
	delete(backend["ecs"].(values), "taskImage") // the release's image of tasks, by default
	_, port, err := net.SplitHostPort(strings.TrimPrefix(w.c.URL(), "https://"))
	if err != nil {
		t.Fatal(err)
	}
	var env []values
	for _, variable := range ecsprocess.Access() {
		name, value, _ := strings.Cut(variable, "=")
		env = append(env, values{"name": name, "value": value})
	}
	return values{
		"image":    imageValues(t),
		"replicas": 2,
		"config":   values{"pods": values{"apiServer": net.JoinHostPort(w.cloud.Gateway.String(), port)}},
		"removal":  values{"timeout": removalTimeout.String()},
		"env":      env,
		"nodes": values{node: values{
			"node": values{"capacity": values{"cpu": "4", "memory": "8Gi"}}, "backend": backend,
		}},
	}
}

// nothingOn: no task runs, no secret is kept, no definition can be run.
func nothingOn(t *testing.T, cloud *ecsprocess.Process) {
	t.Helper()
	report, err := ecs.Remote{URL: cloud.URL}.Report(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range report.Tasks {
		if task.LastStatus != "STOPPED" {
			t.Errorf("task %s is %s", task.ARN, task.LastStatus)
		}
	}
	for _, secret := range report.Secrets {
		if !secret.Deleted {
			t.Errorf("secret %s is left", secret.Name)
		}
	}
	for _, definition := range report.Definitions {
		if definition.Status == "ACTIVE" {
			t.Errorf("task definition %s:%d is left", definition.Family, definition.Revision)
		}
	}
	if len(report.Tasks) == 0 {
		t.Error("ECS knows of no task: this would show nothing")
	}
}

// builtImage is one of burstlet's images, read from its archive.
func builtImage(t *testing.T, archive string) v1.Image {
	t.Helper()
	dir := t.TempDir()
	if err := unpack(archive, dir); err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	for {
		manifest, err := index.IndexManifest()
		if err != nil || len(manifest.Manifests) != 1 {
			t.Fatalf("read index of the image: %v, %+v", err, manifest)
		}
		only := manifest.Manifests[0]
		if !only.MediaType.IsIndex() {
			built, err := index.Image(only.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return built
		}
		if index, err = index.ImageIndex(only.Digest); err != nil {
			t.Fatal(err)
		}
	}
}

// unpack unpacks an archive into a directory.
func unpack(archive, dir string) (err error) {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	for entries := tar.NewReader(file); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(header.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		content, err := io.ReadAll(entries)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}
}
