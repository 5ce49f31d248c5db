package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/burstlet/burstlet/test/kit/child"
	"github.com/burstlet/burstlet/test/kit/launch"
)

// node is burstlet, a process that can be killed and started again.
type node struct {
	cfg    launch.Config
	failed chan error // an end that nobody asked for

	mu       sync.Mutex
	process  *child.Child
	watching sync.WaitGroup
}

// newNode is one that is not started. Its output is added to cfg's LogFile.
func newNode(cfg launch.Config) *node { return &node{cfg: cfg, failed: make(chan error, 1)} }

func (n *node) start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	process, err := launch.Run(n.cfg)
	if err != nil {
		return err
	}
	n.process = process
	n.watching.Go(func() {
		<-process.Done()
		if err := process.Err(); err != nil && !errors.Is(err, child.ErrExit) { // which stop tells
			select {
			case n.failed <- fmt.Errorf("%w; see %s", err, n.cfg.LogFile):
			default: // one is enough
			}
		}
	})
	return nil
}

// kill ends the process with SIGKILL and returns when it is gone.
func (n *node) kill() error {
	return n.end(func(process *child.Child) error { return process.Kill() })
}

// stop ends the process as an operator does; with its grace over, or ctx, as kill does.
func (n *node) stop(ctx context.Context) error {
	return n.end(func(process *child.Child) error { return process.Stop(ctx) })
}

func (n *node) end(how func(*child.Child) error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return nil
	}
	select {
	case <-n.process.Done(): // of which failed tells
		return nil
	default:
	}
	err := how(n.process)
	n.watching.Wait()
	return err
}
