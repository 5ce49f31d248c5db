package kubelet

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

//go:embed wants.sh
var wantsScript string

// Kubelet is a running kubelet.
type Kubelet struct {
	host *remotehost.Host
	link *link
	cmd  *exec.Cmd // nsenter, which waits for the kubelet
	pid  int
	done chan struct{}
	err  error // how it ended; valid once done is closed
}

// Start starts a kubelet on a host and returns when it is healthy, which is a
// moment before its node is Ready. It runs until Stop, or as long as its host; ctx
// bounds only the start. A host has at most one.
func Start(ctx context.Context, host *remotehost.Host, cfg Config) (*Kubelet, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("start kubelet: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	k := &Kubelet{host: host, done: make(chan struct{})}
	if err := k.start(ctx, cfg); err != nil {
		// The caller's ctx may be what ended; cleaning up must not depend on it.
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer cancel()
		return nil, errors.Join(fmt.Errorf("start kubelet: %w", err), k.Stop(stop))
	}
	return k, nil
}

func (k *Kubelet) start(ctx context.Context, cfg Config) error {
	var err error
	if k.link, err = newLink(ctx, k.host); err != nil {
		return err
	}
	if err := k.install(cfg); err != nil {
		return err
	}
	if err := k.run(ctx, cfg); err != nil {
		return err
	}
	return k.awaitHealth(ctx)
}

// install puts the program and its configuration onto the host's disk.
func (k *Kubelet) install(cfg Config) error {
	if err := os.MkdirAll(k.host.Path(etcDir), 0o755); err != nil {
		return fmt.Errorf("make directory of host: %w", err)
	}
	if err := copyFile(cfg.Binary, k.host.Path(programPath), 0o755); err != nil {
		return err
	}
	if err := copyFile(cfg.ClientCAFile, k.host.Path(clientCAPath), 0o644); err != nil {
		return err
	}
	settings, err := cfg.configuration()
	if err != nil {
		return fmt.Errorf("render configuration: %w", err)
	}
	if err := os.WriteFile(k.host.Path(configPath), settings, 0o644); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return cfg.writeKubeconfig(k.host.Path(kubeconfigPath), k.link.machine().String())
}

func (k *Kubelet) run(ctx context.Context, cfg Config) error {
	args := append([]string{
		"--mount", "--propagation", "unchanged", "--", "/bin/sh", "-c", wantsScript, "wants.sh", programPath,
	}, cfg.arguments(k.host.Address().String())...)
	k.cmd = k.host.Command(context.WithoutCancel(ctx), "unshare", args...)
	k.cmd.Stdout, k.cmd.Stderr = cfg.Log, cfg.Log
	if err := k.cmd.Start(); err != nil {
		k.cmd = nil
		return fmt.Errorf("enter host: %w", err)
	}
	go func() {
		k.err = k.cmd.Wait()
		close(k.done)
	}()
	return k.findPid(ctx)
}

// findPid finds what nsenter forked into the host; it becomes the kubelet.
func (k *Kubelet) findPid(ctx context.Context) error {
	children := fmt.Sprintf("/proc/%d/task/%d/children", k.cmd.Process.Pid, k.cmd.Process.Pid)
	return k.poll(ctx, "the process of the kubelet", func() error {
		text, err := os.ReadFile(children)
		if err != nil {
			return fmt.Errorf("read children of nsenter: %w", err)
		}
		first, _, _ := strings.Cut(string(text), " ")
		if k.pid, err = strconv.Atoi(first); err != nil {
			return fmt.Errorf("nsenter has no child: %w", err)
		}
		return nil
	})
}

func (k *Kubelet) awaitHealth(ctx context.Context) error {
	return k.poll(ctx, "the kubelet's health", func() error {
		return Healthz(ctx, k.host.DialContext, healthAddress)
	})
}

// Healthz is nil when what serves /healthz at an address, as it is dialled, says that it
// is well.
func Healthz(
	ctx context.Context, dial func(ctx context.Context, network, address string) (net.Conn, error), address string,
) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/healthz", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// poll calls check until it succeeds, the kubelet is gone or ctx ends.
func (k *Kubelet) poll(ctx context.Context, what string, check func() error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return wait.Until(ctx, what, func(context.Context) error {
		err := check()
		select {
		case <-k.done:
			cancel(fmt.Errorf("it ended: %w", k.Err()))
		default:
		}
		return err
	})
}

// Pid is the kubelet's, on the machine.
func (k *Kubelet) Pid() int { return k.pid }

// Address is where the kubelet serves its own API, as it is dialled in the host.
func (k *Kubelet) Address() string {
	return net.JoinHostPort(k.host.Address().String(), strconv.Itoa(apiPort))
}

// Done is closed when the kubelet has ended.
func (k *Kubelet) Done() <-chan struct{} { return k.done }

// Err says how the kubelet ended, once Done is closed.
func (k *Kubelet) Err() error {
	if k.err != nil {
		return k.err
	}
	return errors.New("exit status 0")
}

// Stop ends the kubelet as an operator does, and by force when ctx ends first, and
// takes the host's way to the machine away. As on any node the pods stay, until
// their host goes.
func (k *Kubelet) Stop(ctx context.Context) error {
	var errs []error
	if k.cmd != nil {
		errs = append(errs, k.end(ctx))
	}
	if k.link != nil {
		// Nothing must be left of it, whether ctx has ended or not.
		errs = append(errs, k.link.remove(context.WithoutCancel(ctx)))
		k.link = nil
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop kubelet: %w", err)
	}
	return nil
}

func (k *Kubelet) end(ctx context.Context) error {
	if k.pid != 0 {
		if err := k.signal(k.pid, unix.SIGTERM); err != nil {
			return err
		}
		select {
		case <-k.done:
			return nil
		case <-ctx.Done():
		}
	}
	// nsenter leads a process group of its own, which the kubelet is in.
	if err := k.signal(-k.cmd.Process.Pid, unix.SIGKILL); err != nil {
		return err
	}
	<-k.done
	return nil
}

// signal sends a signal to a kubelet that has not ended: its number may be
// another's by then.
func (k *Kubelet) signal(pid int, s syscall.Signal) error {
	select {
	case <-k.done:
		return nil
	default:
	}
	if err := unix.Kill(pid, s); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("send %s to kubelet: %w", s, err)
	}
	return nil
}
