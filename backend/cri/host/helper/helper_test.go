package helper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/fence"
	"github.com/burstlet/burstlet/backend/wireerr"
	"github.com/burstlet/burstlet/test/kit/filled"
)

// oneCall is an operation with an argument, as asked and as it is to arrive.
type oneCall struct {
	op     string
	arg    any
	result any
	do     func(ctx context.Context, h host.Host) (any, error)
}

func noResult(err error) (any, error) { return nil, err }

func everyCall(t testing.TB, zero bool) []oneCall {
	prep, discard, volume := filled.Of[host.Preparation](t), filled.Of[host.Discard](t), filled.Of[host.Volume](t)
	pod, rotation, sweep := filled.Of[host.PodDir](t), filled.Of[host.Rotation](t), filled.Of[host.Sweep](t)
	cgroup, usage, runtimeCall := filled.Of[host.Cgroup](t), filled.Of[host.UsageRequest](t), filled.Of[host.Call](t)
	within := filled.Of[host.FileWithin](t)
	leader, record := filled.Of[host.LeaderRequest](t), filled.Of[fence.Record](t)
	facts, prepared, used := filled.Of[host.Facts](t), filled.Of[host.Prepared](t), filled.Of[host.Usage](t)
	placed, rotated, file := filled.Of[[]host.Placed](t), filled.Of[[]string](t), []byte("\x00\xff\nbytes")
	pods, evicted := filled.Of[[]host.Known](t), filled.Of[host.EvictedRequest](t)
	evictions := filled.Of[[]host.Eviction](t)
	discarded, took := filled.Of[host.Discarded](t), filled.Of[time.Duration](t)
	if zero {
		discarded, took = host.Discarded{}, 0
		// What is empty, nil or a pointer to zero must stay so.
		prep, discard = host.Preparation{Dirs: []string{}, Cgroup: &host.Cgroup{}}, host.Discard{}
		volume = host.Volume{FSGroup: new(int64), Files: []host.File{{Data: []byte{}, UID: new(int64)}, {}}}
		pod, rotation, sweep, cgroup, usage = host.PodDir{}, host.Rotation{}, host.Sweep{}, host.Cgroup{}, host.UsageRequest{}
		runtimeCall, leader, record, within = host.Call{}, host.LeaderRequest{}, fence.Record{}, host.FileWithin{}
		facts, prepared, used = host.Facts{}, host.Prepared{}, host.Usage{Node: host.CgroupUsage{RSS: new(uint64)}}
		placed, rotated, file, pods = nil, []string{}, nil, nil
		evicted, evictions = host.EvictedRequest{}, nil
	}
	return []oneCall{
		{opFacts, none{}, facts, func(ctx context.Context, h host.Host) (any, error) { return h.Facts(ctx) }},
		{
			opReadFile,
			readFileArgs{"/a", 7},
			file,
			func(ctx context.Context, h host.Host) (any, error) { return h.ReadFile(ctx, "/a", 7) },
		},
		{opWithin, within, file, func(ctx context.Context, h host.Host) (any, error) { return h.ReadWithin(ctx, within) }},
		{opPrepare, prep, prepared, func(ctx context.Context, h host.Host) (any, error) { return h.Prepare(ctx, prep) }},
		{
			opDiscard, discard, discarded,
			func(ctx context.Context, h host.Host) (any, error) { return h.Discard(ctx, discard) },
		},
		{opPlace, volume, nil, func(ctx context.Context, h host.Host) (any, error) { return noResult(h.Place(ctx, volume)) }},
		{opClear, pod, nil, func(ctx context.Context, h host.Host) (any, error) { return noResult(h.Clear(ctx, pod)) }},
		{
			opVolumes,
			volumesArgs{"/r", "n"},
			placed,
			func(ctx context.Context, h host.Host) (any, error) { return h.Volumes(ctx, "/r", "n") },
		},
		{opRotate, rotation, rotated, func(ctx context.Context, h host.Host) (any, error) { return h.Rotate(ctx, rotation) }},
		{opSweep, sweep, nil, func(ctx context.Context, h host.Host) (any, error) { return noResult(h.Sweep(ctx, sweep)) }},
		{opStrays, pods, rotated, func(ctx context.Context, h host.Host) (any, error) { return h.Strays(ctx, pods) }},
		{
			opEvicted, evicted, evictions,
			func(ctx context.Context, h host.Host) (any, error) { return h.Evicted(ctx, evicted) },
		},
		{opLimit, cgroup, took, func(ctx context.Context, h host.Host) (any, error) { return h.Limit(ctx, cgroup) }},
		{opLeader, leader, record, func(ctx context.Context, h host.Host) (any, error) { return h.Leader(ctx, leader) }},
		{opCall, runtimeCall, file, func(ctx context.Context, h host.Host) (any, error) { return h.Call(ctx, runtimeCall) }},
		{opUsage, usage, used, func(ctx context.Context, h host.Host) (any, error) { return h.Usage(ctx, usage) }},
	}
}

func TestOperationsArriveWhole(t *testing.T) {
	for _, zero := range []bool{false, true} {
		for _, tt := range everyCall(t, zero) {
			t.Run(fmt.Sprintf("%s zero=%t", tt.op, zero), func(t *testing.T) {
				// A result comes with an error, too.
				failure := fmt.Errorf("%s went half way: %w", tt.op, syscall.ENOSPC)
				h := &fakeHost{answer: func(context.Context, string, any) (any, error) { return tt.result, failure }}
				got, err := tt.do(t.Context(), started(t, h))
				if diff := cmp.Diff([]fakeCall{{tt.op, tt.arg}}, h.calls, cmp.AllowUnexported(fakeCall{})); diff != "" {
					t.Errorf("arguments: %s", diff)
				}
				if diff := cmp.Diff(tt.result, got); diff != "" {
					t.Errorf("result: %s", diff)
				}
				if !errors.Is(err, syscall.ENOSPC) || err.Error() != failure.Error() {
					t.Errorf("error %v, want %v", err, failure)
				}
				failure = nil
				if _, err := tt.do(t.Context(), started(t, h)); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

type ownError struct{ inner error }

func (e ownError) Error() string        { return "own: " + e.inner.Error() }
func (e ownError) Is(target error) bool { return target == fs.ErrPermission }

func TestErrorsAnswerAsOnTheHost(t *testing.T) {
	asked := []error{
		fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrInvalid, os.ErrDeadlineExceeded, errors.ErrUnsupported,
		syscall.ENOENT, syscall.ENOSPC, syscall.EROFS, syscall.ENOTEMPTY, syscall.ESTALE, syscall.ECONNREFUSED, syscall.EBUSY,
		backend.ErrNotFound, backend.ErrExists, backend.ErrInvalid, backend.ErrUnsupported, backend.ErrCapacity,
		backend.ErrThrottled, backend.ErrUnavailable, backend.ErrDenied, context.Canceled, context.DeadlineExceeded,
	}
	cases := []error{
		errors.New("plain \"words\"\n\tand ü \x00"),
		&fs.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT},
		fmt.Errorf("place: %w", errors.Join(
			&os.LinkError{Op: "rename", Old: "a", New: "b", Err: syscall.ENOSPC}, fmt.Errorf("and %w", syscall.EBUSY),
		)),
		backend.Errorf(backend.ErrUnsupported, "mount: %w", syscall.ESTALE),
		backend.Classed(backend.ErrDenied, backend.Classed(backend.ErrInvalid, errors.New("two classes"))),
		ownError{errors.New("with words of its own")},
		fmt.Errorf("operation: %w", context.DeadlineExceeded),
		errors.Join(fs.ErrExist, os.ErrDeadlineExceeded),
		fmt.Errorf("start: %w", &host.CallError{Code: 9, Message: "the container is odd"}),
	}
	for _, e := range asked {
		cases = append(cases, fmt.Errorf("it says: %w", e))
	}
	var want error
	c := started(t, &fakeHost{answer: func(context.Context, string, any) (any, error) { return nil, want }})
	for _, want = range cases {
		got := c.Sweep(t.Context(), host.Sweep{})
		if got == nil || got.Error() != want.Error() {
			t.Errorf("got %v, want %v", got, want)
			continue
		}
		for _, e := range asked {
			if errors.Is(got, e) != errors.Is(want, e) {
				t.Errorf("%v: errors.Is(%v) = %t, on the host %t", want, e, errors.Is(got, e), errors.Is(want, e))
			}
		}
		var answer, wanted *host.CallError
		if errors.As(got, &answer) != errors.As(want, &wanted) || wanted != nil && *answer != *wanted {
			t.Errorf("%v: the runtime's answer is %v", want, answer)
		}
		if backend.Class(got) != backend.Class(want) {
			t.Errorf("%v: class %s, on the host %s", want, backend.Class(got), backend.Class(want))
		}
	}
}

func TestLongErrorIsCut(t *testing.T) {
	h := &fakeHost{answer: func(context.Context, string, any) (any, error) {
		return nil, errors.New(strings.Repeat("é", wireerr.MaxText))
	}}
	if err := started(t, h).Sweep(t.Context(), host.Sweep{}); err == nil || len(err.Error()) > wireerr.MaxText+8 {
		t.Errorf("text of %d bytes", len(fmt.Sprint(err)))
	}
}

func TestContextEndsOnBothSides(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan error, 1)
	c := started(t, &fakeHost{answer: func(ctx context.Context, op string, _ any) (any, error) {
		if op == opFacts {
			return nil, nil
		}
		close(begun)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-begun
		cancel(fs.ErrClosed)
	}()
	if err := c.Clear(ctx, host.PodDir{}); !errors.Is(err, fs.ErrClosed) || errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("error %v, want the context's cause", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("on the host: %v", err)
	}
	if _, err := c.Facts(t.Context()); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

func TestCallsRunSideBySide(t *testing.T) {
	const calls = 500 // more than HTTP/2 allows before the server's settings
	var inside atomic.Int32
	all := make(chan struct{})
	c := started(t, &fakeHost{answer: func(_ context.Context, _ string, arg any) (any, error) {
		if inside.Add(1) == calls {
			close(all)
		}
		<-all
		return []byte(arg.(readFileArgs).Path), nil
	}})
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			path := fmt.Sprint("/", i)
			if got, err := c.ReadFile(t.Context(), path, 1); err != nil || string(got) != path {
				t.Errorf("%s: %s, %v", path, got, err)
			}
		})
	}
	wg.Wait()
}

func TestBrokenStreamIsUnavailable(t *testing.T) {
	here, there := net.Pipe()
	begun := make(chan struct{})
	ended := make(chan struct{})
	h := &fakeHost{answer: func(ctx context.Context, _ string, _ any) (any, error) {
		close(begun)
		<-ctx.Done()
		close(ended)
		return nil, nil
	}}
	served := make(chan error, 1)
	go func() { served <- Serve(t.Context(), there, h) }()
	c := NewClient(here)
	go func() {
		<-begun
		here.Close()
	}()
	err := c.Place(t.Context(), host.Volume{})
	if !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	<-c.Done()
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
	select {
	case <-ended:
	default:
		t.Error("Serve returned before its operation")
	}
	if err := c.Sweep(t.Context(), host.Sweep{}); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("a call afterwards: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// deaf is a stream whose network goes away: nothing comes, and what is sent is lost.
type deaf struct {
	net.Conn
	gone, closed chan struct{}
}

func (d deaf) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	select {
	case <-d.gone:
		<-d.closed
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (d deaf) Write(p []byte) (int, error) {
	select {
	case <-d.gone:
		return len(p), nil
	default:
		return d.Conn.Write(p)
	}
}

func (d deaf) Close() error {
	close(d.closed)
	return d.Conn.Close()
}

func TestServeEndsWithinAMinuteOfSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		network := deaf{there, make(chan struct{}), make(chan struct{})}
		served := make(chan error, 1)
		go func() { served <- Serve(t.Context(), network, &fakeHost{}) }()
		c := NewClient(here)
		defer c.Close()
		for range 2 {
			if _, err := c.Facts(t.Context()); err != nil {
				t.Fatal(err)
			}
			// A client that is there may be quiet. When its network goes, no ping is on its way:
			// one that waits for half a read would hold a lock, and so the bubble's clock.
			time.Sleep(time.Hour + time.Second)
		}
		close(network.gone)
		lost := time.Now()
		go func() { _, _ = c.Facts(t.Context()) }() // it ends what is being read, and goes nowhere
		if err := <-served; err != nil {
			t.Error(err)
		}
		if took := time.Since(lost); took > time.Minute+time.Second {
			t.Errorf("it ended after %s", took)
		}
	})
}

func TestServeEndsWithItsContext(t *testing.T) {
	here, there := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{})
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, there, &fakeHost{answer: func(ctx context.Context, _ string, _ any) (any, error) {
			close(begun)
			<-ctx.Done()
			return nil, nil
		}})
	}()
	c := NewClient(here)
	defer c.Close()
	go func() {
		<-begun
		cancel()
	}()
	if err := c.Sweep(t.Context(), host.Sweep{}); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
	<-c.Done()
}

func TestPanicIsAnError(t *testing.T) {
	for _, value := range []any{"secret words", fmt.Errorf("secret %d", 1), nil} {
		c := started(t, &fakeHost{answer: func(_ context.Context, op string, _ any) (any, error) {
			switch {
			case op == opFacts:
				return nil, nil
			case value != nil:
				panic(value)
			}
			return []int{len(op)}[len(op)], nil
		}})
		err := c.Place(t.Context(), host.Volume{})
		if err == nil || !strings.Contains(err.Error(), "Place panicked") ||
			!strings.Contains(err.Error(), "TestPanicIsAnError") || strings.Contains(err.Error(), "secret") {
			t.Errorf("error %v", err)
		}
		if value == nil && !strings.Contains(err.Error(), "index out of range") {
			t.Errorf("error %v does not say why", err)
		}
		if _, err := c.Facts(t.Context()); err != nil {
			t.Errorf("the next call: %v", err)
		}
	}
}

func TestOtherVersionIsRefused(t *testing.T) {
	here, there := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- serve(t.Context(), there, &fakeHost{}, "1-new") }()
	c := newClient(here, "1-old")
	defer c.Close()
	_, err := c.Facts(t.Context())
	if !errors.Is(err, backend.ErrUnavailable) ||
		!strings.Contains(err.Error(), `another version: it speaks "1-new", this side "1-old"`) {
		t.Errorf("client: %v", err)
	}
	if err := <-served; !errors.Is(err, errVersion) || !strings.Contains(err.Error(), `it speaks "1-old"`) {
		t.Errorf("helper: %v", err)
	}
}

func TestVersionIsTheSameEachTime(t *testing.T) {
	if a, b := version(), version(); a != b || len(a) > maxGreeting-len(magic) {
		t.Errorf("%q and %q", a, b)
	}
}

// said is a stream whose other side has said something.
type said struct {
	io.Reader
	io.Writer
	net.Conn
}

func (s said) Read(p []byte) (int, error)  { return s.Reader.Read(p) }
func (s said) Write(p []byte) (int, error) { return s.Conn.Write(p) }

func TestWhatTheShellSaysIsPassedOver(t *testing.T) {
	here, there := net.Pipe()
	go func() {
		if err := Serve(t.Context(), there, &fakeHost{}); err != nil {
			t.Error(err)
		}
	}()
	c := NewClient(said{
		Reader: io.MultiReader(strings.NewReader("Welcome to host7!\nburstlet\n"+strings.Repeat("=", 9000)), here),
		Conn:   here,
	})
	defer c.Close()
	if _, err := c.Facts(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOneThatIsNoHelperIsShown(t *testing.T) {
	for name, tt := range map[string]struct{ says, want string }{
		"a shell":   {"sh: 1: /run/burstlet/helper: Permission denied\n", "Permission denied"},
		"nothing":   {"", "connection to the host's helper ended"},
		"a flood":   {strings.Repeat("x", 2*maxNoise), "does not speak"},
		"bad lines": {magic + strings.Repeat("y", 2*maxGreeting), "another version"},
	} {
		t.Run(name, func(t *testing.T) {
			here, there := net.Pipe()
			go func() {
				buf := make([]byte, 4096)
				_, _ = there.Read(buf)
				_, _ = io.WriteString(there, tt.says)
				there.Close()
			}()
			c := NewClient(here)
			defer c.Close()
			_, err := c.Facts(t.Context())
			if !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 1000 {
				t.Errorf("error %v", err)
			}
			<-c.Done()
		})
	}
}

func TestSecretsStayOutOfErrors(t *testing.T) {
	for _, args := range []string{
		`{"Files":[{"Data":"hunter2!"}]}`, `{"Name":7,"Files":"hunter2!"}`, `{"x":hunter2!`, `hunter2!`,
	} {
		got := operations()[opPlace].do(t.Context(), &fakeHost{}, []byte(args)).(reply[none])
		if got.Error == nil || strings.Contains(got.Error.Text, "hunter") {
			t.Errorf("%s: %+v", args, got.Error)
		}
	}
}

// slowLink delays what goes each way.
func slowLink(delay time.Duration) (a, b net.Conn) {
	a1, a2 := net.Pipe()
	b1, b2 := net.Pipe()
	go delayed(a2, b1, delay)
	go delayed(b1, a2, delay)
	return a1, b2
}

type packet struct {
	data []byte
	at   time.Time
}

func delayed(from, to net.Conn, delay time.Duration) {
	packets := make(chan packet, 1<<16)
	go func() {
		defer close(packets)
		for {
			buf := make([]byte, 64<<10)
			n, err := from.Read(buf)
			if err != nil {
				return
			}
			packets <- packet{buf[:n], time.Now().Add(delay)}
		}
	}()
	for p := range packets {
		time.Sleep(time.Until(p.at))
		if _, err := to.Write(p.data); err != nil {
			break
		}
	}
	to.Close()
	for range packets {
	}
}

func TestOperationTakesOneRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const way = 10 * time.Millisecond
		here, there := slowLink(way)
		log := bytes.Repeat([]byte("x"), 2<<20)
		h := &fakeHost{
			answer: func(_ context.Context, op string, _ any) (any, error) {
				if op == opReadFile {
					return log, nil
				}
				return nil, nil
			},
			log: func(context.Context, host.LogRequest) (io.ReadCloser, error) {
				return io.NopCloser(bytes.NewReader(log)), nil
			},
		}
		served := make(chan error, 1)
		go func() { served <- Serve(t.Context(), there, h) }()
		c := NewClient(here)
		takes := func(name string, do func() error) {
			t.Helper()
			start := time.Now()
			if err := do(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(start); took != 2*way {
				t.Errorf("%s took %s, want %s", name, took, 2*way)
			}
		}
		takes("the first operation", func() error { return c.Sweep(t.Context(), host.Sweep{}) })
		takes("the second", func() error { return c.Sweep(t.Context(), host.Sweep{}) })
		takes("4 MiB there", func() error {
			return c.Place(t.Context(), host.Volume{Files: []host.File{{Data: make([]byte, 4<<20)}}})
		})
		takes("2 MiB back", func() error {
			_, err := c.ReadFile(t.Context(), "/a", 2<<20)
			return err
		})
		takes("a log", func() error {
			r, err := c.Log(t.Context(), host.LogRequest{})
			if err != nil {
				return err
			}
			got, err := io.ReadAll(r)
			if !bytes.Equal(got, log) {
				t.Errorf("%d bytes of log", len(got))
			}
			return errors.Join(err, r.Close())
		})
		if err := errors.Join(c.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
}
