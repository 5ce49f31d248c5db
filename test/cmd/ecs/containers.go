package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/fakeaws/ecsrun"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// stopTimeout bounds the removal of what ran.
const stopTimeout = 3 * time.Minute

// onLoopback is where the server listens where no container runs.
const onLoopback = "127.0.0.1"

// machine stands for this machine, as tasks reach it, in --registry.
const machine = "machine"

// containers are the flags that make tasks real.
type containers struct {
	own        bool
	images     []string
	registries []string
	socket     string
	dir        string
	metadata   string
}

func (c *containers) flags(f *pflag.FlagSet) {
	f.BoolVar(
		&c.own, "containers", false, "run tasks as containers, on a containerd that is started and ends with this command",
	)
	f.StringSliceVar(&c.images, "image", nil, "with --containers: archive of images to import (repeatable)")
	f.StringSliceVar(
		&c.registries, "registry", nil,
		"with --containers: NAME=ADDRESS:PORT of a registry to pull from in plain HTTP; the address \""+machine+
			"\" is this machine (repeatable)",
	)
	f.StringVar(&c.socket, "cri-socket", "", "run tasks as containers on the containerd at this socket")
	f.StringVar(&c.dir, "dir", "", "with --cri-socket: directory that containerd sees at the same path")
	f.StringVar(
		&c.metadata, "metadata-listen", ecs.MetadataHost+":80",
		"with --cri-socket: where requests of tasks to "+ecs.MetadataHost+" arrive; the address must be there",
	)
}

// around calls f with a runner (nil: none), what is to be said of it, and an address
// of this machine that tasks reach, and removes all that it made when f returns. The
// context of f ends when tasks can run no more, which is an error.
func (c *containers) around(ctx context.Context, f func(context.Context, ecs.Runner, []string, string) error) error {
	switch {
	case c.own && c.socket != "":
		return errors.New("give --containers or --cri-socket, not both")
	case c.own:
		return c.onHost(ctx, f)
	case c.socket != "":
		return c.onSocket(ctx, f)
	case c.dir != "" || len(c.images) > 0 || len(c.registries) > 0:
		return errors.New("--dir, --image and --registry need --containers or --cri-socket")
	}
	return f(ctx, nil, nil, onLoopback)
}

func (c *containers) onHost(
	ctx context.Context, f func(context.Context, ecs.Runner, []string, string) error,
) (err error) {
	if missing := remotehost.Missing(); len(missing) > 0 {
		return fmt.Errorf("packages are missing, install them with: apt-get install %s", strings.Join(missing, " "))
	}
	host, err := remotehost.Start(ctx, remotehost.Config{Linked: true})
	if err != nil {
		return err
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err = errors.Join(err, host.Stop(stop))
	}()
	if err := c.prepare(ctx, host); err != nil {
		return err
	}
	runner, err := ecsrun.OnHost(ctx, host)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runner.Close()) }()
	ctx, end := context.WithCancel(ctx)
	failed := make(chan error, 1)
	go func() {
		failed <- host.AwaitFailure(ctx)
		end()
	}()
	defer func() {
		end()
		err = errors.Join(<-failed, err)
	}()
	return f(ctx, runner, []string{
		"CRI_SOCKET=unix://" + host.Socket(), "SHARED_DIR=" + host.Shared(), "TASKS_SUBNET=" + host.Subnet().String(),
		"MACHINE=" + host.Gateway().String(),
	}, host.Gateway().String())
}

// prepare imports images and names registries.
func (c *containers) prepare(ctx context.Context, host *remotehost.Host) error {
	for _, archive := range c.images {
		if err := host.ImportImages(ctx, archive); err != nil {
			return fmt.Errorf("--image %s: %w", archive, err)
		}
	}
	for _, r := range c.registries {
		name, address, ok := strings.Cut(r, "=")
		where, port, err := net.SplitHostPort(address)
		if !ok || err != nil {
			return fmt.Errorf("--registry %s: want NAME=ADDRESS:PORT", r)
		}
		if where == machine {
			where = host.Gateway().String()
		}
		if err := host.UseRegistry(name, net.JoinHostPort(where, port)); err != nil {
			return fmt.Errorf("--registry %s: %w", r, err)
		}
	}
	return nil
}

func (c *containers) onSocket(
	ctx context.Context, f func(context.Context, ecs.Runner, []string, string) error,
) (err error) {
	if c.dir == "" || len(c.images) > 0 || len(c.registries) > 0 {
		return errors.New("--cri-socket needs --dir, and takes no --image and --registry")
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", c.metadata)
	if err != nil {
		return fmt.Errorf("serve metadata: %w", err)
	}
	runner, err := ecsrun.New(ctx, ecsrun.Config{
		Socket: strings.TrimPrefix(c.socket, "unix://"), Dir: c.dir, Cgroups: "/sys/fs/cgroup", Proc: "/proc",
		Metadata: listener,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer func() { err = errors.Join(err, runner.Close()) }()
	return f(ctx, runner, nil, onLoopback)
}
