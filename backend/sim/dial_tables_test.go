package sim

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim/shell"
)

// serving is an attempt whose container began a minute ago, listens on 80, and in an hour on 90.
func serving(uid types.UID, ips ...string) *attempt {
	now := time.Now()
	a := &attempt{node: "n", ref: backend.Ref{UID: uid}, ips: ips, ready: now, containers: []*container{{
		name: "c", started: now.Add(-time.Minute),
		program: program{listeners: []shell.Listener{{Port: 80}, {Port: 90, From: time.Hour}}},
	}}}
	if strings.HasPrefix(ips[0], "10.88.") {
		a.release = ips[0]
	}
	return a
}

// TestWhoAnswers: who has the address and listens now, the pod itself before others; localhost is the pod's host.
func TestWhoAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := []string{"10.87.0.1", "fd00::1"}
		unready, dead, gone := serving("unready", "10.88.0.3"), serving("dead", "10.88.0.4"), serving("gone", "10.88.0.5")
		unready.ready, dead.dead, gone.gone = time.Now().Add(time.Second), time.Now(), time.Now()
		ended := serving("ended", "10.88.0.6")
		ended.containers[0].finished = time.Now()
		pods := []*attempt{
			serving("a", "10.88.0.1"), serving("b", "10.88.0.2"), unready, dead, gone, ended,
			serving("host-a", host...), serving("host-b", host...),
		}
		tasks := []*attempt{serving("a", "10.88.0.1"), serving("a", "10.88.0.9"), serving("b", "10.88.0.2"), dead}
		tasks[1].ref.Attempt = 1
		tasks[1].containers[0].program.listeners = nil
		for _, tt := range []struct {
			tasks bool
			pod   types.UID
			host  string
			port  int
			want  string
		}{
			{false, "a", "10.88.0.1", 80, "a"},
			{false, "b", "10.88.0.1", 80, "a"},
			{false, "none", "10.88.0.1", 80, "a"},
			{false, "a", "10.88.0.2", 80, "b"},
			{false, "a", "10.88.0.1", 81, "refused"},
			{false, "a", "10.88.0.1", 90, "refused"}, // not yet
			{false, "a", "10.88.0.3", 80, "nobody"},
			{false, "unready", "10.88.0.3", 80, "nobody"},
			{false, "a", "10.88.0.4", 80, "nobody"},
			{false, "a", "10.88.0.5", 80, "nobody"},
			{false, "a", "10.88.0.6", 80, "refused"},
			{false, "a", "10.88.0.7", 80, "nobody"},
			{false, "a", "192.0.2.1", 80, "nobody"},
			{false, "a", "10.87.0.1", 80, "host-a"},
			{false, "a", "fd00::1", 80, "host-a"},
			{false, "a", "localhost", 80, "host-a"},
			{false, "a", "127.0.0.1", 80, "host-a"},
			{false, "a", "::1", 80, "host-a"},
			{false, "host-a", "localhost", 80, "host-a"},
			{false, "host-b", "localhost", 80, "host-b"},
			{false, "host-b", "10.87.0.1", 80, "host-b"},
			{false, "host-b", "localhost", 81, "refused"},
			{true, "b", "localhost", 80, "b"},
			{true, "b", "10.88.0.2", 80, "b"},
			{true, "b", "10.87.0.1", 80, "b"},
			{true, "a", "localhost", 80, "refused"}, // of its newest attempt
			{true, "a", "10.88.0.1", 80, "a"},
			{true, "none", "localhost", 80, "refused"},
			{true, "dead", "localhost", 80, "refused"},
			{true, "dead", "10.88.0.4", 80, "nobody"},
		} {
			r := New(Config{PodUnit: tt.tasks, HostIPs: host})
			there := pods
			if tt.tasks {
				there = tasks
			}
			for _, a := range there {
				r.insert(a)
			}
			s, known := dialView{&view{r, "n"}}.server(backend.Ref{UID: tt.pod}, tt.host, tt.port)
			got := "nobody"
			switch {
			case s.container != nil:
				got = string(s.attempt.ref.UID)
			case known:
				got = "refused"
			}
			if got != tt.want {
				t.Errorf("tasks: %v: %s of %s:%d: %s, want %s", tt.tasks, tt.pod, tt.host, tt.port, got, tt.want)
			}
		}
	})
}

// TestWhatIsForwardedTo: what serves a port, else a greeting where it is declared, else the echo; nothing of a pod
// that is not there.
func TestWhatIsForwardedTo(t *testing.T) {
	declares := func(port int32, protocol corev1.Protocol) func(*attempt) {
		return func(a *attempt) {
			a.containers[0].spec.Container.Ports = []corev1.ContainerPort{
				{ContainerPort: 1}, {ContainerPort: port, Protocol: protocol},
			}
		}
	}
	behind := func(a *attempt) {
		ended := &container{name: "ended", started: second(1), finished: second(2)}
		a.containers = []*container{ended, a.containers[0]}
		ended.spec.Container.Ports = []corev1.ContainerPort{{ContainerPort: 70}}
	}
	for name, tt := range map[string]struct {
		port int
		edit func(*attempt)
		want string
	}{
		"served":                       {80, nil, "served by c"},
		"served, and declared":         {80, declares(80, ""), "served by c"},
		"declared, and not yet served": {90, declares(90, ""), "refused"},
		"not yet served":               {90, nil, "refused"},
		"declared":                     {70, declares(70, ""), "a greeting of c"},
		"declared for TCP":             {70, declares(70, corev1.ProtocolTCP), "a greeting of c"},
		"declared for UDP":             {70, declares(70, corev1.ProtocolUDP), "refused"},
		"declared for SCTP":            {70, declares(70, corev1.ProtocolSCTP), "refused"},
		"another":                      {71, declares(70, ""), "refused"},
		"the echo":                     {7, nil, "an echo of c"},
		"the echo, declared":           {7, declares(7, ""), "a greeting of c"},
		"the echo, for UDP":            {7, declares(7, corev1.ProtocolUDP), "an echo of c"},
		"of one that has ended":        {70, behind, "refused"},
		"of the second":                {80, behind, "served by c"},
		"the echo of the second":       {7, behind, "an echo of c"},
		"nothing runs":                 {7, func(a *attempt) { a.containers = nil }, "refused"},
		"not ready":                    {80, func(a *attempt) { a.ready = time.Now().Add(1) }, "NotFound"},
		"dead":                         {80, func(a *attempt) { a.dead = time.Now() }, "NotFound"},
		"gone":                         {80, func(a *attempt) { a.gone = time.Now() }, "NotFound"},
		"another's":                    {80, func(a *attempt) { a.node = "other" }, "NotFound"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := New(Config{})
			a := serving("u", "10.88.0.1")
			if tt.edit != nil {
				tt.edit(a)
			}
			r.insert(a)
			found, greets, err := forwardView{&view{r, "n"}}.inside(a.ref, tt.port)
			got := backend.Class(err)
			switch {
			case errors.Is(err, syscall.ECONNREFUSED):
				got = "refused"
			case err == nil && greets:
				got = "a greeting of " + found.container.name
			case err == nil && found.listener.Port == tt.port:
				got = "served by " + found.container.name
			case err == nil:
				got = "an echo of " + found.container.name
			}
			if got != tt.want {
				t.Errorf("%s: %s, want %s", name, got, tt.want)
			}
		})
	}
}

// TestListenersOfTests: the last one of a port answers, instead of the container, until it is closed.
func TestListenersOfTests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Config{})
		a := serving("u", "10.88.0.1")
		r.insert(a)
		t.Cleanup(func() { r.Vanish("u") })
		b := r.BackendFor("n")
		says := func(l net.Listener, word string) {
			go func() {
				for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
					_, _ = conn.Read(make([]byte, 64)) // the whole question
					_, _ = io.WriteString(conn, word)
					_ = conn.Close()
				}
			}()
		}
		hears := func(when, want string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			for way, connect := range map[string]func() (net.Conn, error){
				"dialled":   func() (net.Conn, error) { return b.Dial.Dial(ctx, a.ref, "10.88.0.1:80") },
				"forwarded": func() (net.Conn, error) { return b.Forward.Forward(ctx, a.ref, 80) },
			} {
				conn, err := connect()
				if err != nil {
					t.Errorf("%s, %s: %v", when, way, err)
					continue
				}
				_ = conn.SetDeadline(time.Now().Add(time.Second))
				if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
					t.Errorf("%s, %s: %v", when, way, err)
				}
				if got, _ := io.ReadAll(conn); !strings.HasSuffix(string(got), want) {
					t.Errorf("%s, %s: %q, want %q", when, way, got, want)
				}
				_ = conn.Close()
			}
		}
		hears("without one", "ok\n")
		first := r.Listen("u", 80)
		says(first, "first")
		hears("with one", "first")
		second := r.Listen("u", 80)
		says(second, "second")
		hears("with another", "second")
		_ = first.Close()
		hears("when the first is closed", "second")
		for range 2 {
			_ = second.Close()
		}
		hears("when all are closed", "ok\n")
		if _, err := second.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accepted by what is closed: %v", err)
		}
		if got := second.Addr().(*net.TCPAddr).Port; got != 80 {
			t.Errorf("it listens on %d", got)
		}
		closing := r.Listen("u", 80)
		time.AfterFunc(time.Second, func() { _ = closing.Close() })
		if _, err := b.Dial.Dial(t.Context(), a.ref, "10.88.0.1:80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("closed while somebody comes: %v", err)
		}
	})
}

// TestOneConnection: a server of one connection gets it once, and ends with it.
func TestOneConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		closed := make(chan struct{})
		l := &once{conn: near, closed: closed}
		time.AfterFunc(time.Second, func() { close(closed) })
		if conn, err := l.Accept(); conn != near || err != nil {
			t.Errorf("%v, %v", conn, err)
		}
		_ = l.Close() // is for the connection to do
		begun := time.Now()
		if conn, err := l.Accept(); conn != nil || !errors.Is(err, net.ErrClosed) || time.Since(begun) != time.Second {
			t.Errorf("again: %v, %v after %v", conn, err, time.Since(begun))
		}
	})
}
