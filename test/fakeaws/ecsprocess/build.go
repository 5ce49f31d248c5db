package ecsprocess

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build builds test/cmd/ecs and burstlet's in-task binary into a directory, from
// the checkout around the working directory.
func Build(ctx context.Context, dir string) (ecs, task string, err error) {
	ecs, task = filepath.Join(dir, "ecs"), filepath.Join(dir, "burstlet-task")
	for _, build := range []struct {
		path, pkg string
		env       string
	}{
		{ecs, "github.com/burstlet/burstlet/test/cmd/ecs", "CGO_ENABLED=0"},
		{task, "github.com/burstlet/burstlet/cmd/burstlet-task", "CGO_ENABLED=0"},
	} {
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", build.path, build.pkg)
		cmd.Env = append(os.Environ(), build.env)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", "", fmt.Errorf("build %s: %w\n%s", build.pkg, err, out)
		}
	}
	return ecs, task, nil
}
