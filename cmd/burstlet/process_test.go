package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/cmd/burstlet/health"
	"github.com/burstlet/burstlet/provider/election"
)

var errBroken = errors.New("reach the cri backend: no such file or directory")

// keeping runs a keeper whose node ends as it is told, and returns when it was
// started, counted from the beginning.
func keeping(t *testing.T, lives []time.Duration, end error) (starts []time.Duration, state *health.Node, err error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	began := time.Now()
	state = health.NewNode("n")
	err = keeper{name: "n", state: state, run: func(ctx context.Context) error {
		starts = append(starts, time.Since(began))
		if len(starts) > len(lives) {
			stop()
			return nil
		}
		time.Sleep(lives[len(starts)-1])
		return end
	}}.keep(ctx)
	return starts, state, err
}

func TestNodeThatFailsIsStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starts, state, err := keeping(t, []time.Duration{0, 0, 0, 0, 0, 0, 0, time.Minute, 0}, errBroken)
		if err != nil {
			t.Error(err)
		}
		var pauses []time.Duration
		for i := range starts[1:] {
			pauses = append(pauses, starts[i+1]-starts[i])
		}
		const s = time.Second
		// 1 s, doubling to 30 s; after a minute of life anew.
		want := []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s, time.Minute + s, 2 * s}
		if diff := cmp.Diff(want, pauses); diff != "" {
			t.Errorf("pauses (-want +got):\n%s", diff)
		}
		if line, ready := state.Line(); ready || line != "[-]node/n failed: "+errBroken.Error()+"\n" {
			t.Errorf("ready %v: %s", ready, line)
		}
	})
}

func TestNodeThatEndsByItselfIsStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if starts, state, err := keeping(t, []time.Duration{0}, nil); len(starts) != 2 || err != nil || !failed(state) {
			t.Errorf("starts %v, %v, state %v", starts, err, state)
		}
	})
}

// failed is true of a node that /readyz shows with an error.
func failed(n *health.Node) bool {
	text, _ := n.Line()
	return strings.Contains(text, "failed: ")
}

// What cannot be stopped is not started a second time in the same process.
func TestStuckNodeIsNotStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if starts, _, err := keeping(t, []time.Duration{0, 0}, election.ErrStuck); len(starts) != 1 ||
			!errors.Is(err, election.ErrStuck) {
			t.Errorf("starts %v, %v", starts, err)
		}
	})
}

func TestErrorAtTheEndIsReturned(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	err := keeper{name: "n", state: health.NewNode("n"), run: func(context.Context) error {
		stop()
		return errBroken
	}}.keep(ctx)
	if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "node n: ") {
		t.Errorf("error %v", err)
	}
}

func TestTogether(t *testing.T) {
	ended := errors.New("ended in good order")
	err := together(t.Context(), []func(context.Context) error{
		func(context.Context) error { return errBroken },
		func(ctx context.Context) error { <-ctx.Done(); return ended },
	})
	if !errors.Is(err, errBroken) || !errors.Is(err, ended) {
		t.Errorf("error %v", err)
	}
}

// What is wrong with one of several nodes is no reason to try again.
func TestConfigurationThatNoRetryHealsEndsTheProcess(t *testing.T) {
	cfg := config.Configuration{Nodes: []config.NodeEntry{
		{Node: config.Node{Name: "a"}},
		{Node: config.Node{Name: "b"}, Pods: config.Pods{AllowedUnsafeSysctls: []string{"a*b"}}},
	}}
	err := runNodes(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "configure node b: pods.allowedUnsafeSysctls") {
		t.Errorf("error %v", err)
	}
}
