package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"slices"
	"syscall"

	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/host/local"
)

// A session that ends leaves a process that sees to what still runs. It is one of its own,
// because sshd and sudo end what hangs on their session.

// maxOrder is more than an order has bytes, and less than a pipe holds.
const maxOrder = 16 << 10

// heldFile is the descriptor of its file: the first of exec.Cmd's ExtraFiles.
const heldFile = 3

// ownProgram is the program, also where its file is gone.
const ownProgram = "/proc/self/exe"

// handOver starts that process; it is false where there is nothing to see to.
func handOver(ctx context.Context, host *local.Host, args []string) (bool, error) {
	// An operation that was given up may hold the lock.
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	order, err := host.KeepOrder(ctx)
	if order == nil {
		return false, err
	}
	if startErr := startKeeper(ctx, order, args); startErr != nil {
		return false, errors.Join(err, fmt.Errorf("start the process that sees to pods: %w", startErr))
	}
	return true, err
}

func startKeeper(ctx context.Context, order *host.Rotation, args []string) error {
	text, err := json.Marshal(order)
	if err != nil {
		return fmt.Errorf("encode its order: %w", err)
	}
	if len(text) > maxOrder {
		return fmt.Errorf("its order has %d bytes, more than %d", len(text), maxOrder)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // the process has its own
	// Nobody reads yet.
	_, err = w.Write(text)
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	held, err := local.NewKeeper(ctx, order.Keep)
	if err != nil {
		return err
	}
	cmd := exec.Command(ownProgram, append(slices.Clone(args), "--rotate")...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.ExtraFiles = r, []*os.File{held}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, os.Remove(held.Name()), held.Close())
	}
	return held.Close()
}

// rotate is that process.
func rotate(ctx context.Context, h *local.Host, input io.Reader) error {
	var order host.Rotation
	if err := json.NewDecoder(io.LimitReader(input, maxOrder)).Decode(&order); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	if order.Keep == nil {
		return errors.New("the order does not say how")
	}
	held := local.InheritKeeper(heldFile, order.Keep)
	h.KeepOn(ctx, held, order, func(err error) { log.Print(err) })
	return held.Close()
}
