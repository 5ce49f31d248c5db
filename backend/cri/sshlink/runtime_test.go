package sshlink

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend/cri/fakecri"
)

// serveRuntime plays a container runtime on each channel.
func serveRuntime(runtime runtimeapi.RuntimeServiceServer) func(io.ReadWriteCloser) {
	return func(rw io.ReadWriteCloser) {
		end := &channelEnd{Channel: rw.(ssh.Channel), closed: make(chan struct{})}
		server := grpc.NewServer()
		runtimeapi.RegisterRuntimeServiceServer(server, runtime)
		served := make(chan error, 1)
		go func() { served <- server.Serve(&oneListener{conn: end}) }()
		<-end.closed
		server.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) && !errors.Is(err, net.ErrClosed) {
			panic(err)
		}
	}
}

// channelEnd is the other end of a conn.
type channelEnd struct {
	ssh.Channel
	once   sync.Once
	closed chan struct{}
}

func (c *channelEnd) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Channel.Close()
}
func (c *channelEnd) LocalAddr() net.Addr              { return namedAddr("runtime") }
func (c *channelEnd) RemoteAddr() net.Addr             { return namedAddr("sshd") }
func (c *channelEnd) SetDeadline(time.Time) error      { return nil }
func (c *channelEnd) SetReadDeadline(time.Time) error  { return nil }
func (c *channelEnd) SetWriteDeadline(time.Time) error { return nil }

// oneListener has one connection.
type oneListener struct {
	mu    sync.Mutex
	given bool
	conn  *channelEnd
}

func (l *oneListener) Accept() (net.Conn, error) {
	l.mu.Lock()
	given := l.given
	l.given = true
	l.mu.Unlock()
	if !given {
		return l.conn, nil
	}
	<-l.conn.closed
	return nil, net.ErrClosed
}
func (l *oneListener) Close() error   { return nil }
func (l *oneListener) Addr() net.Addr { return namedAddr("runtime") }

func TestDiagnoseRuntime(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*fakecri.Server)
		want   []string
	}{
		"healthy": {func(*fakecri.Server) {}, []string{
			"ok runtime socket", "ok runtime containerd 1.6.20", "ok RuntimeReady", "ok NetworkReady",
		}},
		"another runtime": {
			func(s *fakecri.Server) { s.Runtime = "cri-o 1.33.0" },
			[]string{
				"ok runtime socket", "warn runtime cri-o 1.33.0: it was not tried; use containerd 1.6 or newer", "ok RuntimeReady",
				"ok NetworkReady",
			},
		},
		"no network": {
			func(s *fakecri.Server) { s.NotReady = "cni plugin not initialized" },
			[]string{
				"ok runtime socket", "ok runtime containerd 1.6.20", "ok RuntimeReady",
				"FAIL NetworkReady NetworkPluginNotReady: cni plugin not initialized; only pods on the host's network start: " +
					"install CNI",
			},
		},
		"no cri": {
			func(s *fakecri.Server) {
				s.Before = func(context.Context, string, any) error {
					return status.Error(codes.Unimplemented, "unknown service runtime.v1.RuntimeService")
				}
			},
			[]string{
				"ok runtime socket",
				"FAIL runtime it does not speak CRI v1: unknown service runtime.v1.RuntimeService; containerd 1.6 or newer is " +
					"needed, without cri in disabled_plugins",
			},
		},
		"broken": {
			func(s *fakecri.Server) {
				s.Before = func(context.Context, string, any) error { return errors.New("out of cheese") }
			},
			[]string{"ok runtime socket", "FAIL runtime out of cheese; see the log"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := fakecri.New()
			tc.change(s)
			socket := filepath.Join(t.TempDir(), "r.sock")
			stop, err := s.Serve(socket)
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			var got []string
			for _, f := range DiagnoseRuntime(t.Context(), &net.Dialer{}, "me", socket) {
				verdict := map[bool]string{true: "ok", false: "FAIL"}[f.OK]
				if f.Warn {
					verdict = "warn"
				}
				got = append(got, verdict+" "+f.What+" "+f.Detail+"; "+f.Advice)
			}
			if len(got) != len(tc.want) {
				t.Fatalf("findings %q, want %q", got, tc.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], tc.want[i]) {
					t.Errorf("finding %q, want %q", got[i], tc.want[i])
				}
			}
		})
	}
}

func TestOldContainerd(t *testing.T) {
	for version, want := range map[string]bool{
		"1.6.20~ds1": false, "1.5.9": true, "v1.7.0": false, "2.0.0": false, "1.10.0": false, "0.9": true, "unknown": false,
		"": false,
	} {
		if got := tooOld("containerd", version); got != want {
			t.Errorf("containerd %s: %t", version, got)
		}
	}
	if tooOld("cri-o", "1.2.3") {
		t.Error("cri-o counts otherwise")
	}
}
