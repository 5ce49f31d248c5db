package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// nfs mounts an export with mount(8), which knows how to find the server's version
// and locks. The kubelet leaves the ownership of what is in it alone.
func (p *placing) nfs(ctx context.Context) error {
	if m, mounted := p.mounts.at(p.dir); mounted && m.nfs() {
		return nil
	}
	if err := mkdirAll(p.dir, kubeletDirMode); err != nil {
		return err
	}
	options := slices.Clone(p.v.MountOptions)
	if p.v.ReadOnly {
		options = append(options, "ro")
	}
	args := []string{"-t", "nfs"}
	if len(options) > 0 {
		args = append(args, "-o", strings.Join(options, ","))
	}
	args = append(args, p.v.Source, p.dir)
	if err := p.h.mount(ctx, args); err != nil {
		if !hasNFSHelper() {
			return fmt.Errorf("%w\nThe host has no mount.nfs: install its package nfs-common (nfs-utils on some systems)", err)
		}
		return err
	}
	return nil
}

// mount runs mount(8), with what it started, until ctx ends.
func (h *Host) mount(ctx context.Context, args []string) error {
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, h.opts.MountCommand, args...)
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	// mount.nfs is its child.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = time.Second
	failed := bounded(ctx, "mount "+strings.Join(args, " "), cmd.Run)
	if failed == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("mount %s: %w", strings.Join(args, " "), err)
	}
	return fmt.Errorf("mount failed: %w\nMounting command: %s\nMounting arguments: %s\nOutput: %s",
		failed, h.opts.MountCommand, strings.Join(args, " "), strings.TrimSpace(output.String()))
}

// hasNFSHelper looks where mount(8) does.
func hasNFSHelper() bool {
	dirs := append([]string{"/sbin", "/usr/sbin", "/sbin/fs.d", "/sbin/fs"}, filepath.SplitList(os.Getenv("PATH"))...)
	return slices.ContainsFunc(dirs, func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "mount.nfs"))
		return err == nil
	})
}

// bind binds a directory of the host. As at the kubelet, what is mounted below it
// is not seen.
func (p *placing) bind(ctx context.Context) error {
	if _, err := bindFlags(p.v.MountOptions, p.v.ReadOnly); err != nil {
		return err
	}
	if err := mkdirAll(p.dir, kubeletDirMode); err != nil {
		return err
	}
	err := bounded(ctx, "bind "+p.v.Source, func() error {
		source := p.v.Source
		if p.v.Within != "" {
			opened, err := openWithin(p.v.Within, source, false)
			if err != nil {
				return err
			}
			defer func() { _ = opened.Close() }() // what is mounted stays
			source = procFile(opened)
		}
		mounted, err := p.isBound(ctx, source)
		if err != nil || mounted {
			return err
		}
		if err := unix.Mount(source, p.dir, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s to %s: %w", p.v.Source, p.dir, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := p.restrict(); err != nil {
		return err
	}
	if p.v.ReadOnly || p.v.FSGroup == nil {
		return nil
	}
	others, err := p.boundByOthers()
	if err != nil || others {
		return err
	}
	return bounded(ctx, "set ownership of "+p.v.Source, func() error { return p.own(ctx, p.v.OnRootMismatch) })
}

// isBound is true where the source, at a path of its, is bound already. Something else
// that is there is unmounted.
func (p *placing) isBound(ctx context.Context, at string) (bool, error) {
	source, err := os.Stat(at)
	if errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("path %q does not exist: %w", p.v.Source, err)
	}
	if err != nil {
		return false, err
	}
	if !source.IsDir() {
		return false, fmt.Errorf("path %q is not a directory: %w", p.v.Source, unix.ENOTDIR)
	}
	if _, mounted := p.mounts.at(p.dir); !mounted {
		return false, nil
	}
	there, err := os.Lstat(p.dir)
	if err != nil {
		return false, err
	}
	if os.SameFile(source, there) {
		return true, nil
	}
	return false, p.h.unmountBelow(ctx, p.dir)
}

// boundByOthers is true where another pod has the same directory: its ownership was
// set by the first.
func (p *placing) boundByOthers() (bool, error) {
	table, err := p.h.mounts()
	if err != nil {
		return false, err
	}
	ours, ok := table.at(p.dir)
	if !ok {
		return false, fmt.Errorf("%s is not mounted any more", p.dir)
	}
	return slices.ContainsFunc(table, func(m mountPoint) bool {
		return m.device == ours.device && m.root == ours.root &&
			within(m.path, p.v.Pod.Root) && !within(m.path, p.v.Pod.Path())
	}), nil
}

// restrict gives a bind mount the options that it has to have beside those of its
// source.
func (p *placing) restrict() error {
	flags, err := bindFlags(p.v.MountOptions, p.v.ReadOnly)
	if err != nil {
		return err
	}
	if flags == 0 {
		return nil
	}
	table, err := p.h.mounts()
	if err != nil {
		return err
	}
	m, ok := table.at(p.dir)
	if !ok {
		return fmt.Errorf("%s is not mounted any more", p.dir)
	}
	// A remount sets all of them: those that the source has stay.
	for _, option := range m.options {
		flags |= mountFlags[option]
	}
	if err := unix.Mount("", p.dir, "", unix.MS_REMOUNT|unix.MS_BIND|flags, ""); err != nil {
		return fmt.Errorf("remount %s with its options: %w", p.dir, err)
	}
	return nil
}

// mountFlags are the options that a bind mount can have of its own.
var mountFlags = map[string]uintptr{
	"ro": unix.MS_RDONLY, "nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC,
	"noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME, "relatime": unix.MS_RELATIME,
	"strictatime": unix.MS_STRICTATIME,
	// What is so anyway.
	"rw": 0, "defaults": 0, "bind": 0, "suid": 0, "dev": 0, "exec": 0, "atime": 0, "diratime": 0,
}

func bindFlags(options []string, readOnly bool) (uintptr, error) {
	var flags uintptr
	if readOnly {
		flags = unix.MS_RDONLY
	}
	for _, list := range options {
		for _, option := range strings.Split(list, ",") {
			flag, known := mountFlags[option]
			if !known {
				return 0, fmt.Errorf("mount option %q means nothing for a local volume", option)
			}
			flags |= flag
		}
	}
	return flags, nil
}
