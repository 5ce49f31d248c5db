package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/burstlet/burstlet/backend/cri/host/helper"
	"github.com/burstlet/burstlet/backend/cri/host/local"
)

// drainTime is how long operations may take to end with the session: one that a
// hung file system holds must not keep the process for ever. Calls of the container
// runtime have bounds of their own.
const drainTime = time.Minute

func main() {
	log.SetFlags(log.LstdFlags | log.LUTC)
	log.SetPrefix("hosthelper: ")
	// A write to a session that has gone is an error, not the end. Unlike one that
	// is ignored, a signal that is caught is not passed on to mount and others.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	told, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(told, os.Args[1:], stdio{os.Stdin, os.Stdout})
	stop()
	if err != nil {
		log.Print(err)
		os.Exit(1)
	}
}

// run ends when told to; a terminal that hangs up ends the session alone.
func run(told context.Context, args []string, session io.ReadWriteCloser) error {
	flags := flag.NewFlagSet("hosthelper", flag.ContinueOnError)
	var o local.Options
	flags.StringVar(&o.Root, "root", "", "directory of the pods, whose file system is measured")
	dir := flags.String("remove-dir", "", "directory to remove at once if it holds this program alone")
	kept := flags.String(
		"keep-dir", "", "directory to remove at the end if it holds this program alone and the root holds nothing",
	)
	rotates := flags.Bool("rotate", false, "rotate logs and evict pods by the order on the standard input")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *dir != "" && !*rotates {
		if err := removeSelf(*dir); err != nil {
			// What is left there takes room, and nothing else.
			log.Print(err)
		}
	}
	host := local.New(o)
	if *rotates {
		defer leave(*kept, o.Root)
		return rotate(told, host, session)
	}
	ctx, stop := signal.NotifyContext(told, syscall.SIGHUP)
	defer stop()
	err := serve(ctx, host, session)
	// The runtime would cancel a call of a process that goes.
	host.AwaitCalls()
	err = errors.Join(err, host.Leave())
	if told.Err() == nil {
		goesOn, keepErr := handOver(told, host, args)
		if err = errors.Join(err, keepErr); goesOn {
			return err
		}
	}
	leave(*kept, o.Root)
	return err
}

// serve does what the session asks for until it ends.
func serve(ctx context.Context, host *local.Host, session io.ReadWriteCloser) error {
	ended := newEnding(session)
	served := make(chan error, 1)
	go func() { served <- helper.Serve(ctx, ended, host) }()
	select {
	case err := <-served:
		return err
	case <-ended.done:
	}
	late := time.NewTimer(drainTime)
	defer late.Stop()
	select {
	case err := <-served:
		return err
	case <-late.C:
		return fmt.Errorf("operations under way %s after the session's end are given up", drainTime)
	}
}

// leave removes the directory of this program from a host that has no pods. One that has
// some keeps it for the next connection, as it keeps them.
func leave(dir, root string) {
	if dir == "" {
		return
	}
	pods, err := os.ReadDir(root)
	switch {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		log.Printf("look for pods: %v", err)
		return
	case len(pods) > 0:
		return
	}
	// Another helper may have removed it, or have been put in its place.
	if err := removeSelf(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		log.Print(err)
	}
}

// removeSelf removes the directory of this program, which runs on without it.
func removeSelf(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program's own file: %w", err)
	}
	dir, err = filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("remove the program's directory: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("remove the program's directory: %w", err)
	}
	if len(entries) != 1 || filepath.Join(dir, entries[0].Name()) != self {
		return fmt.Errorf("remove the program's directory: %s does not hold this program alone", dir)
	}
	return errors.Join(os.Remove(self), os.Remove(dir))
}

// stdio is the standard input and output as one stream. A read of the input may
// go on after Close, which then does not wait for it.
type stdio struct{ in, out *os.File }

func (s stdio) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s stdio) Write(p []byte) (int, error) { return s.out.Write(p) }
func (s stdio) Close() error                { return errors.Join(s.in.Close(), s.out.Close()) }

// ending tells when a stream was closed.
type ending struct {
	io.ReadWriteCloser
	done chan struct{}
}

func newEnding(rw io.ReadWriteCloser) *ending {
	return &ending{ReadWriteCloser: rw, done: make(chan struct{})}
}

// Close is called once: the helper's connection sees to it.
func (e *ending) Close() error {
	close(e.done)
	return e.ReadWriteCloser.Close()
}
