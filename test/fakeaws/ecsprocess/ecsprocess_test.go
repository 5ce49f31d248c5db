package ecsprocess

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/burstlet/burstlet/test/parts/registry"
)

// program is a shell script in the place of test/cmd/ecs.
func program(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ecs")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStartReadsWhereItServes(t *testing.T) {
	p, err := start(t.Context(), Config{
		Program: program(t, `trap 'exit 0' TERM
			echo ECS_URL=http://198.19.0.1:1; echo MACHINE=198.19.0.1; echo OTHER=1
			echo QUEUE_URL=http://q/1; echo QUEUE_URL=http://q/2
			echo more; while :; do sleep 0.01; done`),
		Queues: []string{"1", "2"},
	}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if p.URL != "http://198.19.0.1:1" || p.QueueURL != "http://q/1" || p.Gateway.String() != "198.19.0.1" {
		t.Errorf("%+v", p)
	}
	select {
	case <-p.Failed():
		t.Error("it has ended")
	default:
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	<-p.Failed()
}

func TestStartFails(t *testing.T) {
	for what, tt := range map[string]struct {
		script string
		within time.Duration // 0: as long as it takes
		want   string
	}{
		"it ends": {script: "exit 3", want: "did not say where it serves|exit status 3"},
		"it has no network": {
			script: "echo ECS_URL=http://127.0.0.1:1; exec sleep 1000", within: 300 * time.Millisecond,
			want: "wait for its address",
		},
		"its address is no other": {script: "echo MACHINE=here; exec sleep 1000", want: "read this machine's address"},
	} {
		t.Run(what, func(t *testing.T) {
			ctx, cancel := t.Context(), func() {}
			if tt.within > 0 {
				ctx, cancel = context.WithTimeout(ctx, tt.within)
			}
			defer cancel()
			p, err := start(ctx, Config{Program: program(t, tt.script)}, t.TempDir())
			if err == nil || !regexp.MustCompile(tt.want).MatchString(err.Error()) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if p == nil {
				t.Fatal("nothing to stop")
			}
			// The scripts do not end well by SIGTERM, or have ended.
			_ = p.Stop(t.Context())
			<-p.Failed()
		})
	}
}

func TestStopKills(t *testing.T) {
	p, err := start(t.Context(), Config{
		Program: program(
			t, "trap '' TERM; echo MACHINE=198.19.0.1; echo ECS_URL=http://198.19.0.1:1; while :; do sleep 0.01; done",
		),
	}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	now, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Stop(now); err == nil || !strings.Contains(err.Error(), "did not end after SIGTERM") {
		t.Errorf("it ended with %v", err)
	}
	<-p.Failed()
}

func TestFlags(t *testing.T) {
	image, err := Unpacked(v1.Config{Cmd: []string{"sh"}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	got, err := Config{
		Images:     map[string]v1.Image{"registry.test/a:1": image},
		Registries: map[string]int{"registry.test": 5000}, LogGroups: []string{"/g"}, Queues: []string{"q"},
		Args: []string{"--throttles"},
	}.args(dir)
	archive := filepath.Join(dir, "images.tar")
	want := []string{
		"--containers", "--image", archive, "--registry", "registry.test=machine:5000", "--log-group", "/g", "--queue", "q",
		"--throttles",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if info, err := os.Stat(archive); err != nil || info.Size() == 0 {
		t.Errorf("images: %v, %v", info, err)
	}
}

func TestRegistryServesWhatImagesAreByDefault(t *testing.T) {
	image, err := Unpacked(v1.Config{Cmd: []string{"sh"}, User: "1000"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := ServeImages("127.0.0.1", map[string]v1.Image{"a.test/app:1": image, "b.test/hidden/app:1": image},
		registry.Private{Prefix: "hidden/", User: "u", Password: "p"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	if want := `registryMirrors: {"a.test": "` + r.URL() + `", "b.test": "` + r.URL() + `"}`; r.Mirrors() != want {
		t.Errorf("%s, want %s", r.Mirrors(), want)
	}
	host := strings.TrimPrefix(r.URL(), "http://")
	get := func(repository string) (v1.Config, error) {
		ref, err := name.NewTag(host+"/"+repository+":1", name.Insecure)
		if err != nil {
			t.Fatal(err)
		}
		got, err := remote.Image(ref, remote.WithContext(t.Context()))
		if err != nil {
			return v1.Config{}, err
		}
		file, err := got.ConfigFile()
		if err != nil {
			return v1.Config{}, err
		}
		return file.Config, nil
	}
	if config, err := get("app"); err != nil || config.User != "1000" || !slices.Equal(config.Cmd, []string{"sh"}) {
		t.Errorf("%+v, %v", config, err)
	}
	if _, err := get("hidden/app"); err == nil {
		t.Error("what is private is open")
	}
	if _, err := ServeImages("127.0.0.1", map[string]v1.Image{"no tag": image}); err == nil ||
		errors.Is(err, os.ErrNotExist) {
		t.Errorf("an image without a name: %v", err)
	}
}
