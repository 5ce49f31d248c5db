package ecsprocess

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/burstlet/burstlet/test/kit/child"
	"github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

const (
	// startTimeout bounds a start: the host of the containers, and their images.
	startTimeout = 5 * time.Minute
	// stopGrace is how long the process may take to end: it ends every container.
	stopGrace = 3 * time.Minute
)

// Config says what to start.
type Config struct {
	// Program is the path of test/cmd/ecs, as [Build] makes it.
	Program string
	// Images are those that tasks may have, by their names, beside busybox.
	Images map[string]v1.Image
	// Registries are ports of this machine at which registries are served over HTTP,
	// by the registries' names; images that Images lacks are pulled there.
	Registries map[string]int
	// LogGroups and Queues exist from the start.
	LogGroups, Queues []string
	// Args are further flags.
	Args []string
	// Log receives what the process prints about itself; nil: nothing is written.
	Log io.Writer
}

// Process is an ECS that runs containers.
type Process struct {
	// URL is where it serves, for burstlet and for tasks.
	URL string
	// QueueURL is that of the first of the queues.
	QueueURL string
	// Gateway is this machine's address in the network of the tasks.
	Gateway netip.Addr

	child *child.Child
}

// Missing names the Debian packages that it needs and that this machine lacks.
func Missing() []string { return remotehost.Missing() }

// Start starts it and returns when it serves. It needs root. ctx bounds the start,
// not the life.
func Start(ctx context.Context, cfg Config) (*Process, error) {
	if missing := Missing(); len(missing) > 0 {
		return nil, fmt.Errorf("start ECS: packages are missing: %s", strings.Join(missing, ", "))
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	dir, err := os.MkdirTemp("", "burstlet-ecs-")
	if err != nil {
		return nil, fmt.Errorf("start ECS: %w", err)
	}
	p, err := start(ctx, cfg, dir)
	// The images have been imported.
	if err = errors.Join(err, os.RemoveAll(dir)); err == nil {
		return p, nil
	}
	if p != nil {
		err = errors.Join(err, p.Stop(context.WithoutCancel(ctx)))
	}
	return nil, fmt.Errorf("start ECS: %w", err)
}

func start(ctx context.Context, cfg Config, dir string) (*Process, error) {
	args, err := cfg.args(dir)
	if err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = io.Discard
	}
	printed, printing := io.Pipe()
	running, err := child.Start(child.Config{
		Name: "ECS", Program: cfg.Program, Args: args, Stdout: printing, Log: cfg.Log, Grace: stopGrace,
	})
	if err != nil {
		return nil, err
	}
	p := &Process{child: running}
	go func() {
		<-running.Done()
		_ = printing.Close() // always nil; what reads comes to the end
	}()
	found := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(printed)
		found <- p.read(lines, len(cfg.Queues))
		for lines.Scan() { // nothing more is wanted, but it must not block
			continue
		}
	}()
	select {
	case err = <-found:
	case <-running.Done():
		err = running.Err()
	case <-ctx.Done():
		err = fmt.Errorf("wait for its address: %w", ctx.Err())
	}
	return p, err
}

// args are the flags; images are written into dir.
func (c Config) args(dir string) ([]string, error) {
	args := []string{"--containers"}
	if len(c.Images) > 0 {
		archive := filepath.Join(dir, "images.tar")
		if err := images.WriteArchive(archive, c.Images); err != nil {
			return nil, err
		}
		args = append(args, "--image", archive)
	}
	for name, port := range c.Registries {
		args = append(args, "--registry", fmt.Sprintf("%s=machine:%d", name, port))
	}
	for _, group := range c.LogGroups {
		args = append(args, "--log-group", group)
	}
	for _, queue := range c.Queues {
		args = append(args, "--queue", queue)
	}
	return append(args, c.Args...), nil
}

// read takes what the process prints, KEY=VALUE lines, as far as it is wanted.
func (p *Process) read(lines *bufio.Scanner, queues int) error {
	for (p.URL == "" || !p.Gateway.IsValid() || queues > 0) && lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), "=")
		switch key {
		case "ECS_URL":
			p.URL = value
		case "MACHINE":
			address, err := netip.ParseAddr(value)
			if err != nil {
				return fmt.Errorf("read this machine's address: %w", err)
			}
			p.Gateway = address
		case "QUEUE_URL":
			queues--
			p.QueueURL = cmp.Or(p.QueueURL, value)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read its address: %w", err)
	}
	if p.URL == "" || !p.Gateway.IsValid() || queues > 0 {
		return errors.New("it did not say where it serves, or this machine's address")
	}
	return nil
}

// Failed is closed when the process has ended, which it does not by itself.
func (p *Process) Failed() <-chan struct{} { return p.child.Done() }

// Err is nil while it runs.
func (p *Process) Err() error { return p.child.Err() }

// Stop ends the process and all that it runs; when ctx ends, or it takes too long,
// with SIGKILL.
func (p *Process) Stop(ctx context.Context) error { return p.child.Stop(ctx) }
