package intask

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// envMetadata is the URL of the task metadata endpoint, version 4 (ECS developer
// guide, "Task metadata endpoint version 4").
const envMetadata = "ECS_CONTAINER_METADATA_URI_V4"

// waitPoll is how often the agent looks. The endpoint takes 40 calls a second.
const waitPoll = time.Second

// statusStopped is KnownStatus of a container that has ended.
const statusStopped = "STOPPED"

// Agent serves sessions, refreshes files and tells how the containers are. It returns nil once all containers of
// EnvWait have stopped or, without any, when the context ends: then the task is
// being stopped.
func (t Task) Agent(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	server, err := t.server(ctx)
	if err != nil {
		return err
	}
	beside.Go(server)
	refresher, err := t.refresher()
	if err != nil {
		return err
	}
	beside.Go(func() { refresher.run(ctx) })
	beside.Go(func() { t.report(ctx) })
	if t.Env(EnvWait) == "" {
		<-ctx.Done()
		return nil
	}
	return t.waitForAll(ctx)
}

// server is what answers on the agent's own socket, until ctx ends.
func (t Task) server(ctx context.Context) (run func(), err error) {
	dir := filepath.Join(t.runDir(), filepath.Base(AgentRunDir))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("prepare %s: %w", dir, err)
	}
	r, err := newReaper(ctx)
	if err != nil {
		return nil, err
	}
	own, err := t.ownProcesses(r)
	if err != nil {
		return nil, err
	}
	l, err := ListenAgent(filepath.Join(dir, AgentSocket))
	if err != nil {
		return nil, fmt.Errorf("prepare sessions: %w", err)
	}
	s := Server{Starter: own, Containers: t.runDir(), Stats: t.Stats, Log: t.Log}
	return func() {
		if err := s.Serve(ctx, l); err != nil {
			t.Log.Printf("sessions: %v", err)
		}
	}, nil
}

// ownProcesses are those of the agent's container: who the agent is.
func (t Task) ownProcesses(r *reaper) (*container, error) {
	s := supervisor{task: t}
	cred, err := s.credential()
	if err != nil {
		return nil, err
	}
	s.reaper = r
	return s.processes(cred)
}

// waitForAll waits for the containers of EnvWait. What the endpoint does not say yet
// is waited for.
func (t Task) waitForAll(ctx context.Context) error {
	url, names := t.Env(envMetadata), strings.Split(t.Env(EnvWait), ",")
	if url == "" {
		return errors.New("there is no " + envMetadata + ": this is no ECS task")
	}
	ticker := time.NewTicker(waitPoll)
	defer ticker.Stop()
	said := ""
	for {
		over, err := t.allStopped(ctx, url, names)
		switch {
		case over:
			return nil
		case err != nil && ctx.Err() == nil && err.Error() != said:
			said = err.Error()
			t.Log.Print(said)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// allStopped is true if the endpoint shows each of the containers as stopped.
func (t Task) allStopped(ctx context.Context, url string, names []string) (bool, error) {
	var task struct {
		Containers []struct {
			Name        string
			KnownStatus string
		}
	}
	if err := t.getJSON(ctx, url+"/task", &task); err != nil {
		return false, fmt.Errorf("read the task's metadata: %w", err)
	}
	stopped := map[string]bool{}
	for _, c := range task.Containers {
		stopped[c.Name] = c.KnownStatus == statusStopped
	}
	for _, name := range names {
		if !stopped[name] {
			return false, nil
		}
	}
	return true, nil
}
