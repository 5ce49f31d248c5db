package debianhost

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/burstlet/burstlet/test/parts/binaries"
	"github.com/burstlet/burstlet/test/parts/remotehost/namespaces"
)

//go:embed image.sh
var imageScript string

// Image returns the path of the disk that hosts begin with, and makes it first when it is
// missing, which takes a minute or two and a mirror of Debian. log gets what is said
// meanwhile; nil discards it. Several processes may ask at once.
func Image(ctx context.Context, log io.Writer) (string, error) {
	path, err := imagePath(ctx)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	mirror, err := mirror(ctx)
	if err != nil {
		return "", err
	}
	// Stdin stays empty: the script is an argument.
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
		"sh", "-c", imageScript, "image.sh", path, mirror)
	cmd.Env = namespaces.Env()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if log != nil {
		cmd.Stdout, cmd.Stderr = io.MultiWriter(&said, log), io.MultiWriter(&said, log)
	}
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("make disk of a Debian host: %w: %s", err, tail(said.String()))
	}
	return path, nil
}

// imagePath is the disk's place in the cache: another script or kernel makes another.
func imagePath(ctx context.Context) (string, error) {
	root, err := binaries.CacheRoot()
	if err != nil {
		return "", fmt.Errorf("choose cache directory: %w", err)
	}
	kernel, err := run(ctx, "dpkg-query", "--show", "user-mode-linux")
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(imageScript + kernel))
	return filepath.Join(root, "debianhost-"+hex.EncodeToString(sum[:6])+".img"), nil
}

// mirror is the one of Debian in the machine's own sources of packages. It has all
// releases, whichever the machine is.
func mirror(ctx context.Context) (string, error) {
	out, err := run(
		ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian", "Label: Debian",
	)
	if err != nil {
		return "", err
	}
	first, _, _ := strings.Cut(out, "\n")
	if first == "" {
		return "", errors.New("apt's sources name no mirror of Debian, or apt-get update was never run")
	}
	return first, nil
}

// run returns what a program of the machine prints.
func run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = namespaces.Env()
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return "", fmt.Errorf("run %s: %w: %s", name, err, exit.Stderr)
		}
		return "", fmt.Errorf("run %s: %w", name, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// tail is the end of a text, for errors.
func tail(text string) string { return text[max(0, len(text)-2048):] }
