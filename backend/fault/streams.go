package fault

import (
	"context"
	"io"
	"net"

	"github.com/burstlet/burstlet/backend"
)

// The methods of the fields that serve kubectl's streams.
const (
	AttachAttach   Method = "Attach.Attach"
	ForwardForward Method = "Forward.Forward"
)

type execs struct {
	inner  backend.Exec
	script *Script
}

// Exec that is late runs the command without the caller's streams.
func (w execs) Exec(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
	c := Call{Method: ExecExec, UID: ref.Pod.UID, Container: ref.Name}
	f := w.script.next(c)
	if f.Late > 0 {
		return 0, w.script.later(ctx, f, c, func(ctx context.Context) {
			// Nobody hears how it ends.
			_, _ = w.inner.Exec(ctx, ref, backend.ExecSpec{Command: spec.Command})
		})
	}
	var code int32
	err := f.apply(ctx, c, func() (err error) {
		code, err = w.inner.Exec(ctx, ref, spec)
		return err
	})
	if err != nil {
		return 0, err
	}
	return code, nil
}

type attaches struct {
	inner  backend.Attacher
	script *Script
}

func (w attaches) Attach(ctx context.Context, ref backend.ContainerRef, spec backend.AttachSpec) error {
	c := Call{Method: AttachAttach, UID: ref.Pod.UID, Container: ref.Name}
	return w.script.do(ctx, c, func() error { return w.inner.Attach(ctx, ref, spec) })
}

type dialer struct {
	inner  backend.Dialer
	script *Script
}

func (w dialer) Dial(ctx context.Context, pod backend.Ref, address string) (net.Conn, error) {
	var conn net.Conn
	err := w.script.do(ctx, Call{Method: DialDial, UID: pod.UID}, func() (err error) {
		conn, err = w.inner.Dial(ctx, pod, address)
		return err
	})
	if err == nil {
		return conn, nil
	}
	drop(conn)
	return nil, err
}

type forwarder struct {
	inner  backend.Forwarder
	script *Script
}

func (w forwarder) Forward(ctx context.Context, pod backend.Ref, port uint16) (net.Conn, error) {
	var conn net.Conn
	err := w.script.do(ctx, Call{Method: ForwardForward, UID: pod.UID}, func() (err error) {
		conn, err = w.inner.Forward(ctx, pod, port)
		return err
	})
	if err == nil {
		return conn, nil
	}
	drop(conn)
	return nil, err
}

type logs struct {
	inner  backend.Logs
	script *Script
}

func (w logs) Open(ctx context.Context, ref backend.ContainerRef, opts backend.LogOptions) (io.ReadCloser, error) {
	c := Call{Method: LogsOpen, UID: ref.Pod.UID, Container: ref.Name}
	var stream io.ReadCloser
	err := w.script.do(ctx, c, func() (err error) {
		stream, err = w.inner.Open(ctx, ref, opts)
		return err
	})
	if err == nil {
		return stream, nil
	}
	drop(stream)
	return nil, err
}

// drop closes what came with a reply that was lost: nobody will use it, so how
// it closes is of no interest.
func drop(c io.Closer) {
	if c != nil {
		_ = c.Close()
	}
}
