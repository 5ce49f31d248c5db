package backendtest_test

import (
	"context"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// brokenStreams break the rules of terminals, Attach and Forward.
var brokenStreams = map[string]brokenBackend{
	"big output is cut": {"exec/big_output", true, withExec(func(
		ctx context.Context, inner backend.Exec, ref backend.ContainerRef, spec backend.ExecSpec,
	) (int32, error) {
		if spec.Stdout != nil {
			spec.Stdout = &limited{spec.Stdout, 1 << 19}
		}
		return inner.Exec(ctx, ref, spec)
	})},
	"terminals are none": {"exec/a_terminal", false, withExec(func(
		ctx context.Context, inner backend.Exec, ref backend.ContainerRef, spec backend.ExecSpec,
	) (int32, error) {
		spec.TTY = false
		return inner.Exec(ctx, ref, spec)
	})},
	"terminals keep their size": {"exec/a_terminal", true, withExec(func(
		ctx context.Context, inner backend.Exec, ref backend.ContainerRef, spec backend.ExecSpec,
	) (int32, error) {
		if spec.Resize != nil {
			first := make(chan backend.TerminalSize, 1)
			first <- <-spec.Resize
			spec.Resize = first
		}
		return inner.Exec(ctx, ref, spec)
	})},
	"attachments begin at the beginning": {
		"attach/output_from_now_on_until_the_end",
		false,
		func(b backend.Backend) backend.Backend {
			logs := b.Logs
			b.Attach = attachVia(func(ctx context.Context, ref backend.ContainerRef, spec backend.AttachSpec) error {
				log, err := logs.Open(ctx, ref, backend.LogOptions{Follow: true})
				if err != nil {
					return err
				}
				_, err = io.Copy(spec.Stdout, log)
				return err
			})
			return b
		},
	},
	"attachments hang": {"attach/output_from_now_on_until_the_end", true, withAttach(func(
		ctx context.Context, inner backend.Attacher, ref backend.ContainerRef, spec backend.AttachSpec,
	) error {
		if err := inner.Attach(ctx, ref, spec); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})},
	"attached input is dropped": {"attach/input", false, withAttach(func(
		ctx context.Context, inner backend.Attacher, ref backend.ContainerRef, spec backend.AttachSpec,
	) error {
		if spec.Stdin != nil {
			spec.Stdin = strings.NewReader("")
		}
		return inner.Attach(ctx, ref, spec)
	})},
	"every input is the last": {"attach/input_stays_open", false, func(b backend.Backend) backend.Backend {
		b.Containers = startWith{b.Containers, func(spec *backend.ContainerSpec) { spec.Container.StdinOnce = true }}
		return b
	}},
	"containers have no terminal": {"attach/a_terminal", false, func(b backend.Backend) backend.Backend {
		b.Containers = startWith{b.Containers, func(spec *backend.ContainerSpec) { spec.Container.TTY = false }}
		return b
	}},
	"attachments have no classes": {"attach/what_does_not_run_is_NotFound", false, withAttach(func(
		ctx context.Context, inner backend.Attacher, ref backend.ContainerRef, spec backend.AttachSpec,
	) error {
		if err := inner.Attach(ctx, ref, spec); err != nil {
			return context.Canceled
		}
		return nil
	})},
	"attachments outlive their context": {"attach/ends_with_its_context", true, withAttach(func(
		ctx context.Context, inner backend.Attacher, ref backend.ContainerRef, spec backend.AttachSpec,
	) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return inner.Attach(ctx, ref, spec)
	})},
	"an end is both ends": {"forward/both_ways,_each_to_its_end", false, withForward(func(
		ctx context.Context, inner backend.Forwarder, pod backend.Ref, port uint16,
	) (net.Conn, error) {
		conn, err := inner.Forward(ctx, pod, port)
		if err != nil {
			return nil, err
		}
		return abrupt{conn}, nil
	})},
	"every port answers": {"forward/refused_where_nobody_listens", false, withForward(func(
		ctx context.Context, inner backend.Forwarder, pod backend.Ref, _ uint16,
	) (net.Conn, error) {
		return inner.Forward(ctx, pod, 7)
	})},
	"refused forwarding is unavailable": {"forward/refused_where_nobody_listens", true, withForward(func(
		ctx context.Context, inner backend.Forwarder, pod backend.Ref, port uint16,
	) (net.Conn, error) {
		conn, err := inner.Forward(ctx, pod, port)
		return conn, backend.Classed(backend.ErrUnavailable, err)
	})},
	"forwarding knows no end": {"forward/a_pod_that_has_ended_is_NotFound", true, withForward(func(
		ctx context.Context, inner backend.Forwarder, pod backend.Ref, port uint16,
	) (net.Conn, error) {
		conn, err := inner.Forward(ctx, pod, port)
		if backend.Class(err) == "NotFound" {
			return nil, os.ErrDeadlineExceeded
		}
		return conn, err
	})},
	"forwarding knows no context": {"forward/ended_context", false, withForward(func(
		ctx context.Context, inner backend.Forwarder, pod backend.Ref, port uint16,
	) (net.Conn, error) {
		return inner.Forward(context.WithoutCancel(ctx), pod, port)
	})},
}

func withExec(
	exec func(context.Context, backend.Exec, backend.ContainerRef, backend.ExecSpec) (int32, error),
) func(backend.Backend) backend.Backend {
	return func(b backend.Backend) backend.Backend {
		inner := b.Exec
		b.Exec = execVia(func(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
			return exec(ctx, inner, ref, spec)
		})
		return b
	}
}

func withAttach(
	attach func(context.Context, backend.Attacher, backend.ContainerRef, backend.AttachSpec) error,
) func(backend.Backend) backend.Backend {
	return func(b backend.Backend) backend.Backend {
		inner := b.Attach
		b.Attach = attachVia(func(ctx context.Context, ref backend.ContainerRef, spec backend.AttachSpec) error {
			return attach(ctx, inner, ref, spec)
		})
		return b
	}
}

func withForward(
	forward func(context.Context, backend.Forwarder, backend.Ref, uint16) (net.Conn, error),
) func(backend.Backend) backend.Backend {
	return func(b backend.Backend) backend.Backend {
		inner := b.Forward
		b.Forward = forwardVia(func(ctx context.Context, pod backend.Ref, port uint16) (net.Conn, error) {
			return forward(ctx, inner, pod, port)
		})
		return b
	}
}

type attachVia func(context.Context, backend.ContainerRef, backend.AttachSpec) error

func (f attachVia) Attach(ctx context.Context, ref backend.ContainerRef, spec backend.AttachSpec) error {
	return f(ctx, ref, spec)
}

type forwardVia func(context.Context, backend.Ref, uint16) (net.Conn, error)

func (f forwardVia) Forward(ctx context.Context, pod backend.Ref, port uint16) (net.Conn, error) {
	return f(ctx, pod, port)
}

// startWith starts another container than asked.
type startWith struct {
	backend.Containers
	edit func(*backend.ContainerSpec)
}

func (c startWith) Start(ctx context.Context, ref backend.Ref, spec backend.ContainerSpec) error {
	c.edit(&spec)
	return c.Containers.Start(ctx, ref, spec)
}

// limited drops what is beyond a number of bytes.
type limited struct {
	io.Writer
	left int
}

func (w *limited) Write(p []byte) (int, error) {
	part := p[:min(len(p), w.left)]
	w.left -= len(part)
	if _, err := w.Writer.Write(part); err != nil {
		return 0, err
	}
	return len(p), nil
}

// abrupt ends both directions with one.
type abrupt struct{ net.Conn }

func (c abrupt) CloseWrite() error { return c.Close() }
