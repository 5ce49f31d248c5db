package check

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/burstlet/burstlet/backend"
)

func execOf(command ...string) corev1.ProbeHandler {
	return corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: command}}
}

func tcpOf(port intstr.IntOrString, host string) corev1.ProbeHandler {
	return corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: port, Host: host}}
}

func grpcOf(service string) corev1.ProbeHandler {
	return corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 9000, Service: &service}}
}

func TestExecVerdictFollowsTheExitCode(t *testing.T) {
	broken := errors.New("exec failed: executable file not found")
	for name, tt := range map[string]struct {
		code    int32
		err     error
		verdict Verdict
		output  string
	}{
		"0":                      {verdict: Success, output: "outerr"},
		"1":                      {code: 1, verdict: Failure, output: "outerr"},
		"not started":            {err: broken, verdict: Unknown},
		"remote is out of reach": {err: backend.Errorf(backend.ErrUnavailable, "cut"), verdict: Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			c := New(execFunc(func(_ context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
				if ref != target.Ref {
					t.Errorf("ran in %+v", ref)
				}
				_, errOut := io.WriteString(spec.Stderr, "err")
				_, out := io.WriteString(spec.Stdout, "out")
				return tt.code, errors.Join(tt.err, errOut, out)
			}), nil)
			verdict, output, err := probe(t, c, execOf("true"))
			if verdict != tt.verdict || output != tt.output || !errors.Is(err, tt.err) {
				t.Errorf("got %s %q %v", verdict, output, err)
			}
		})
	}
}

func TestExecOutputIsBoundedText(t *testing.T) {
	c := New(execFunc(func(_ context.Context, _ backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
		for range 20 {
			if n, err := spec.Stdout.Write([]byte(strings.Repeat("o", 1000))); n != 1000 || err != nil {
				t.Errorf("the command was disturbed: %d, %v", n, err)
			}
		}
		return 0, nil
	}), nil)
	if _, output, _ := probe(t, c, execOf("true")); output != strings.Repeat("o", maxOutput) {
		t.Errorf("kept %d bytes", len(output))
	}
	c = New(execFunc(func(_ context.Context, _ backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
		_, err := spec.Stdout.Write([]byte("a\xff"))
		return 0, err
	}), nil)
	if _, output, _ := probe(t, c, execOf("true")); output != "a\uFFFD" {
		t.Errorf("got %q", output)
	}
}

func TestExecCommandsSeeLiteralEnvironmentOnly(t *testing.T) {
	for in, want := range map[string]string{
		"cat $(FILE)":      "cat /ready",
		"$(FILE)$(FILE)":   "/ready/ready",
		"x$(SECRET)x":      "xx",
		"$(UNKNOWN)":       "$(UNKNOWN)",
		"$$(FILE) $FILE $": "$(FILE) $FILE $",
		"$(FILE":           "$(FILE",
		"$(FI$(FILE)":      "$(FI$(FILE)",
		"no reference":     "no reference",
	} {
		var got []string
		c := New(execFunc(func(_ context.Context, _ backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
			got = spec.Command
			return 0, nil
		}), nil)
		if verdict, _, err := probe(t, c, execOf("sh", in)); verdict != Success {
			t.Fatal(err)
		}
		if !slices.Equal(got, []string{"sh", want}) {
			t.Errorf("%q: ran %q, want %q", in, got, want)
		}
	}
}

func TestExecTimeout(t *testing.T) {
	const late = `command timed out: "sleep $(FILE)" timed out after 1m0s`
	for name, tt := range map[string]struct {
		// after is when the backend says err, or what it says when its context ends.
		after   time.Duration
		err     error
		verdict Verdict
		output  string
	}{
		"the remote killed it":                       {time.Minute + time.Second, context.DeadlineExceeded, Failure, late},
		"the remote says nothing":                    {time.Hour, nil, Silence, late},
		"the remote says something when all is over": {time.Hour, errors.New("killed"), Silence, late},
		"the remote is cut off":                      {time.Hour, backend.ErrUnavailable, Unknown, ""},
		"the remote is cut off, and found so late": {
			time.Second, backend.Errorf(backend.ErrUnavailable, "cut: %w", context.DeadlineExceeded), Unknown, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				c := New(execFunc(func(ctx context.Context, _ backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
					if spec.Timeout != time.Minute {
						t.Errorf("the command may take %v", spec.Timeout)
					}
					select {
					case <-ctx.Done():
					case <-time.After(tt.after):
					}
					return 0, cmp.Or(tt.err, ctx.Err())
				}), nil)
				verdict, output, err := probe(t, c, execOf("sleep", "$(FILE)"))
				if verdict != tt.verdict || output != tt.output || (err == nil) != (tt.verdict != Unknown) {
					t.Errorf("got %s %q %v", verdict, output, err)
				}
				if took := time.Since(begun); took > 3*time.Minute {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

func TestTCP(t *testing.T) {
	for name, tt := range map[string]struct {
		dial    dialFunc
		h       corev1.ProbeHandler
		verdict Verdict
		output  string
	}{
		"refused": {
			refused, tcpOf(intstr.FromString("http"), ""), Failure, "dial tcp 10.0.0.1:8080: connect: connection refused",
		},
		"late": {hangs, tcpOf(intstr.FromInt32(5432), "db.test"), Silence, "dial tcp db.test:5432: i/o timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				verdict, output, err := probe(t, New(nil, tt.dial), tt.h)
				if verdict != tt.verdict || output != tt.output || err != nil {
					t.Errorf("got %s %q %v", verdict, output, err)
				}
			})
		})
	}
	n := newNetwork(t)
	serve(t, n, func(http.ResponseWriter, *http.Request) {}, plain)
	verdict, output, err := probe(t, New(nil, n), tcpOf(intstr.FromInt32(80), ""))
	if verdict != Success || output != "" || err != nil {
		t.Errorf("got %s %q %v", verdict, output, err)
	}
	if n.open() != 0 {
		t.Error("the connection is still open")
	}
}

// TestNoVerdictWhileTheRemoteCannotBeAsked: a cut connection must not restart
// containers that are well.
func TestNoVerdictWhileTheRemoteCannotBeAsked(t *testing.T) {
	for name, h := range map[string]corev1.ProbeHandler{
		"http": httpGet("/"), "tcp": tcpOf(intstr.FromInt32(80), ""), "grpc": grpcOf(""),
	} {
		t.Run(name, func(t *testing.T) {
			verdict, _, err := probe(t, New(nil, dialFunc(cut)), h)
			if verdict != Unknown || !errors.Is(err, backend.ErrUnavailable) {
				t.Errorf("got %s %v", verdict, err)
			}
		})
	}
}

func TestNoVerdictWhenEnded(t *testing.T) {
	hangingExec := execFunc(func(ctx context.Context, _ backend.ContainerRef, _ backend.ExecSpec) (int32, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	})
	for name, h := range map[string]corev1.ProbeHandler{
		"exec": execOf("true"), "http": httpGet("/"), "tcp": tcpOf(intstr.FromInt32(80), ""), "grpc": grpcOf(""),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				verdict, _, err := New(hangingExec, dialFunc(hangs)).Probe(ctx, target, h, time.Minute)
				if verdict != Unknown || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %s %v", verdict, err)
				}
			})
		})
	}
}

func TestGRPC(t *testing.T) {
	healthy := func(s *grpc.Server) {
		h := health.NewServer()
		h.SetServingStatus("down", healthv1.HealthCheckResponse_NOT_SERVING)
		healthv1.RegisterHealthServer(s, h)
	}
	slow := func(s *grpc.Server) { healthv1.RegisterHealthServer(s, slowHealth{}) }
	for name, tt := range map[string]struct {
		register func(*grpc.Server)
		service  string
		verdict  Verdict
		output   string
	}{
		"serving":     {healthy, "", Success, "service healthy"},
		"not serving": {healthy, "down", Failure, `service unhealthy (responded with "NOT_SERVING")`},
		"not known": {
			healthy, "other", Failure, "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service",
		},
		"no health service": {
			func(*grpc.Server) {}, "", Failure,
			"error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown service " +
				"grpc.health.v1.Health",
		},
		"late answer": {slow, "", Silence, "timeout: health rpc did not complete within 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				s := grpc.NewServer()
				tt.register(s)
				done := make(chan error, 1)
				go func() { done <- s.Serve(n) }()
				verdict, output, err := probe(t, New(nil, n), grpcOf(tt.service))
				if verdict != tt.verdict || output != tt.output || err != nil {
					t.Errorf("got %s %q %v", verdict, output, err)
				}
				if got := n.addresses(); !slices.Equal(got, []string{"10.0.0.1:9000"}) {
					t.Errorf("dialled %q", got)
				}
				s.Stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

type slowHealth struct {
	healthv1.UnimplementedHealthServer
}

func (slowHealth) Check(ctx context.Context, _ *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestGRPCWithoutServerFails(t *testing.T) {
	for name, tt := range map[string]struct {
		dial    dialFunc
		verdict Verdict
	}{"refused": {refused, Failure}, "late": {hangs, Silence}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				verdict, output, err := probe(t, New(nil, tt.dial), grpcOf(""))
				want := `timeout: failed to connect service "10.0.0.1:9000" within 1m0s: context deadline exceeded`
				if verdict != tt.verdict || output != want || err != nil {
					t.Errorf("got %s %q %v", verdict, output, err)
				}
			})
		})
	}
}

func TestCan(t *testing.T) {
	exec := execFunc(func(context.Context, backend.ContainerRef, backend.ExecSpec) (int32, error) { return 0, nil })
	dial := dialFunc(func(context.Context, backend.Ref, string) (net.Conn, error) { return nil, net.ErrClosed })
	all := map[string]corev1.ProbeHandler{
		"exec": execOf("true"), "http": httpGet("/"), "tcp": tcpOf(intstr.FromInt32(1), ""), "grpc": grpcOf(""), "none": {},
	}
	for name, tt := range map[string]struct {
		c    *Checker
		want []string
	}{
		"nothing": {New(nil, nil), nil},
		"exec":    {New(exec, nil), []string{"exec"}},
		"dial":    {New(nil, dial), []string{"grpc", "http", "tcp"}},
	} {
		var got []string
		for kind, h := range all {
			if tt.c.Can(h) {
				got = append(got, kind)
				continue
			}
			if verdict, _, err := probe(t, tt.c, h); verdict != Unknown || !errors.Is(err, backend.ErrUnsupported) {
				t.Errorf("%s: %s: got %s %v", name, kind, verdict, err)
			}
		}
		if slices.Sort(got); !slices.Equal(got, tt.want) {
			t.Errorf("%s: can %q, want %q", name, got, tt.want)
		}
	}
}
