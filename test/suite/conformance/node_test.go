package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/kit/launch"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// patience bounds what a shell script does at once.
const patience = 3 * time.Minute

// scripted is a node whose program is a shell script.
func scripted(t *testing.T, script string) *node {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script), 0o700); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	n := newNode(launch.Config{Program: program, File: filepath.Join(dir, "config"), LogFile: filepath.Join(dir, "log")})
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.kill(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// awaitLog waits until the log has a text so many times at least.
func (n *node) awaitLog(t *testing.T, text string, times int) {
	t.Helper()
	wait.For(t, patience, "the log of the node", func() error {
		content, err := os.ReadFile(n.cfg.LogFile)
		if err != nil {
			return err
		}
		if strings.Count(string(content), text) < times {
			return fmt.Errorf("it is %q; want %q %d times", content, text, times)
		}
		return nil
	})
}

func TestNodeThatEndsByItselfIsAFailure(t *testing.T) {
	n := scripted(t, "exit 3")
	select {
	case err := <-n.failed:
		if !strings.Contains(err.Error(), "exit status 3") {
			t.Errorf("the failure is %v", err)
		}
	case <-time.After(patience):
		t.Error("nobody heard of the end")
	}
}

func TestNodeIsKilledAndStartedAgain(t *testing.T) {
	n := scripted(t, "trap 'exit 0' TERM\necho life $$ of $@\nwhile :; do sleep 0.01; done")
	n.awaitLog(t, "of run --config "+n.cfg.File, 1)
	if err := n.kill(); err != nil {
		t.Fatal(err)
	}
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	n.awaitLog(t, "life", 2)
	if err := n.stop(t.Context()); err != nil {
		t.Errorf("stop: %v", err)
	}
	select {
	case err := <-n.failed:
		t.Errorf("what was asked for is a failure: %v", err)
	default:
	}
}
