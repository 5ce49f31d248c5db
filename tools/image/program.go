package main

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// program is one of the project's in the image.
type program struct {
	// path in the image, without a leading slash.
	path string
	// pkg is its package.
	pkg string
}

var (
	taskProgram = program{path: "burstlet-task", pkg: "./cmd/burstlet-task"}
	// Not /burstlet: that is a directory in a task on ECS, which this image serves too.
	mainProgram = program{path: "bin/burstlet", pkg: "./cmd/burstlet"}
)

// kind is one of the images of a release.
type kind struct {
	title, description string
	// programs are those of the image, in layers of their own. The one that changes most
	// comes last: a node that has an older image keeps the layers before it.
	programs []program
	// entrypoint and cmd are what it runs.
	entrypoint program
	cmd        []string
}

// mainKind is burstlet, with the program of tasks for who has one image for both;
// taskKind is that program alone, which every task pulls.
var (
	mainKind = kind{
		title: "burstlet", description: "A virtual kubelet that runs pods on hosts over SSH and on AWS Fargate",
		programs: []program{taskProgram, mainProgram}, entrypoint: mainProgram, cmd: []string{"run"},
	}
	taskKind = kind{
		title: "burstlet-task", description: "What burstlet runs in each task on AWS Fargate",
		programs: []program{taskProgram}, entrypoint: taskProgram,
	}
)

// helperFile is where the host helper for a GOARCH is before burstlet is built.
const helperFile = "backend/cri/host/helper/binary/built/hosthelper-linux-%s.gz"

// interruptWait is how long a go command that is called off may take to end its
// compilers.
const interruptWait = 10 * time.Second

// compiler returns a program's executable file for Linux on a GOARCH.
type compiler func(ctx context.Context, p program, goarch string) ([]byte, error)

// machines are the architectures that the image can be built for: those that the
// host helper is built for.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// moduleDir is the directory of the module that the working directory is in.
func moduleDir(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", withOutput(err))
	}
	file := strings.TrimSpace(string(out))
	if filepath.Base(file) != "go.mod" {
		return "", errors.New("find the module: run this in burstlet's checkout")
	}
	return filepath.Dir(file), nil
}

// goBuild compiles in a checkout. What the machine's environment would change in
// the result is set here.
func goBuild(dir, version string) compiler {
	return func(ctx context.Context, p program, goarch string) (content []byte, err error) {
		if err := helpersBuilt(dir); p == mainProgram && err != nil {
			return nil, err
		}
		scratch, err := os.MkdirTemp("", "burstlet-image-")
		if err != nil {
			return nil, fmt.Errorf("make a directory to build in: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
		file := filepath.Join(scratch, p.path)
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
			"-ldflags", "-s -w -buildid= -X main.version="+version, "-o", file, p.pkg)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+goarch,
			"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off", "GOFLAGS=", "GOWORK=off")
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = interruptWait
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build %s for %s: %w: %s", p.pkg, goarch, err, bytes.TrimSpace(out))
		}
		if content, err = os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("read what was built: %w", err)
		}
		if err := checkProgram(content, goarch); err != nil {
			return nil, fmt.Errorf("build %s for %s: %w", p.pkg, goarch, err)
		}
		return content, nil
	}
}

// helpersBuilt wants the host helper for every architecture of hosts: burstlet
// compiles without them, and then cannot reach a host.
func helpersBuilt(dir string) error {
	for goarch := range machines {
		if _, err := os.Stat(filepath.Join(dir, fmt.Sprintf(helperFile, goarch))); err != nil {
			return fmt.Errorf("the host helper that burstlet carries is not built: run make helper: %w", err)
		}
	}
	return nil
}

// checkProgram wants an executable that runs in an image without libraries.
func checkProgram(content []byte, goarch string) error {
	file, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("read the executable: %w", err)
	}
	if want := machines[goarch]; file.Machine != want {
		return fmt.Errorf("the executable is for %s, not %s", file.Machine, want)
	}
	if file.Type != elf.ET_EXEC {
		return fmt.Errorf("the file is no executable but %s", file.Type)
	}
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP {
			return errors.New("the executable needs a loader and libraries, which the image does not have")
		}
	}
	return nil
}
