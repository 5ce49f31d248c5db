package binaries

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// scratchPrefix names the directories of builds under way.
	scratchPrefix = "build-"
	// interruptWait is how long a cancelled go command may take to end its
	// compilers before it is killed.
	interruptWait = 10 * time.Second
	// errorTail is how much of the go command's output an error quotes, in bytes.
	errorTail = 2048
)

// removeScratch removes what killed builds left. The caller holds the lock, so
// no build is under way.
func (c *Cache) removeScratch() error {
	left, err := filepath.Glob(filepath.Join(c.dir, scratchPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove scratch directory: %w", err)
		}
	}
	return nil
}

// compile builds a batch in a scratch directory and renames the results, so that a
// program is either missing or complete.
func (c *Cache) compile(ctx context.Context, b batch) (err error) {
	scratch, err := os.MkdirTemp(c.dir, scratchPrefix)
	if err != nil {
		return fmt.Errorf("make scratch directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	module, out := filepath.Join(scratch, "module"), filepath.Join(scratch, "out")
	for _, dir := range []string{module, out} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("make scratch directory: %w", err)
		}
	}
	if err := writeModule(module, b[0].mod, b[0].sum, b[0].main); err != nil {
		return err
	}

	c.printf("building %s %s (minutes, where nothing of it was ever compiled)", names(b), b[0].version)
	started := time.Now()
	if err := runGo(ctx, module, c.log, nil, b.command(out)...); err != nil {
		return err
	}
	for _, p := range b {
		name, err := p.tool.fileName()
		if err != nil {
			return err
		}
		if err := os.Rename(b.out(out, p), filepath.Join(c.dir, name)); err != nil {
			return fmt.Errorf("move into cache: %w", err)
		}
	}
	c.printf("built %s %s in %s", names(b), b[0].version, time.Since(started).Round(100*time.Millisecond))
	return nil
}

// writeModule writes the files of a module, and its program where it has one of
// its own.
func writeModule(dir string, mod, sum, main []byte) error {
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), mod, 0o644); err != nil {
		return fmt.Errorf("write module: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o644); err != nil {
		return fmt.Errorf("write module: %w", err)
	}
	if main == nil {
		return nil
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), main, 0o644); err != nil {
		return fmt.Errorf("write module: %w", err)
	}
	return nil
}

// runGo runs the go command in dir. Its standard output goes to stdout, or to
// log when that is nil. Programs are static, so that they also run where
// another root or mount namespace hides this machine's libraries.
func runGo(ctx context.Context, dir string, log, stdout io.Writer, args ...string) error {
	var tail bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "PWD="+dir)
	if _, set := os.LookupEnv("GOGC"); !set {
		cmd.Env = append(cmd.Env, "GOGC=400") // a tenth less work for compilers and linkers
	}
	cmd.Stderr = io.MultiWriter(log, &tail)
	cmd.Stdout = stdout
	if stdout == nil {
		cmd.Stdout = cmd.Stderr
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = interruptWait
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("run go %s: %w", args[0], ctx.Err())
		}
		text := tail.Bytes()
		text = text[max(0, len(text)-errorTail):]
		return fmt.Errorf("run go %s: %w: %s", args[0], err, strings.TrimSpace(string(text)))
	}
	return nil
}
