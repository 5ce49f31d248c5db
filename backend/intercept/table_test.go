package intercept

import (
	"context"
	"errors"
	"io"
	"net"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// contract names every call of the contract, by reflection: the methods of
// backend.Backend's interfaces, and its fields that are functions.
func contract() map[Name]reflect.Type {
	calls := map[Name]reflect.Type{}
	fields := reflect.TypeFor[backend.Backend]()
	for i := range fields.NumField() {
		field := fields.Field(i)
		switch field.Type.Kind() {
		case reflect.Interface:
			for j := range field.Type.NumMethod() {
				m := field.Type.Method(j)
				calls[Name(field.Name+"."+m.Name)] = m.Type
			}
		case reflect.Func:
			calls[Name(field.Name)] = field.Type
		default:
		}
	}
	return calls
}

// TestTheTableNamesTheContract: no method of a capability is forgotten, and none is
// named that there is not.
func TestTheTableNamesTheContract(t *testing.T) {
	calls := contract()
	words, operations := map[string]Name{}, map[string]Name{}
	for _, m := range Methods() {
		if calls[m.Name] == nil {
			t.Errorf("%s is not in the contract, or stands in the table twice", m.Name)
		}
		delete(calls, m.Name)
		if other := words[m.Does]; m.Does == "" || other != "" {
			t.Errorf("%s is called %q, as is %q", m.Name, m.Does, other)
		}
		words[m.Does] = m.Name
		if other := operations[m.Operation]; m.Kind != Local && (m.Operation == "" || other != "") {
			t.Errorf("%s is operation %q, as is %q", m.Name, m.Operation, other)
		}
		operations[m.Operation] = m.Name
		if m.Reads && m.Makes || m.Kind == Local && !m.Reads {
			t.Errorf("%s: the row contradicts itself: %+v", m.Name, m)
		}
	}
	for name := range calls {
		t.Errorf("%s has no row in the table", name)
	}
}

// TestKindsAreTrue: calls with a context ask the remote, and those of them that are given
// or return something that moves data are no Unary ones.
func TestKindsAreTrue(t *testing.T) {
	moves := []reflect.Type{
		reflect.TypeFor[io.ReadCloser](), reflect.TypeFor[net.Conn](), reflect.TypeFor[chan<- types.UID](),
		reflect.TypeFor[backend.ExecSpec](), reflect.TypeFor[backend.AttachSpec](),
	}
	calls := contract()
	for _, m := range Methods() {
		call := calls[m.Name]
		want := Unary
		if call.NumIn() == 0 || call.In(0) != reflect.TypeFor[context.Context]() {
			want = Local
		}
		for i := range call.NumIn() {
			if slices.Contains(moves, call.In(i)) {
				want = Stream
			}
		}
		if call.NumOut() > 0 && slices.Contains(moves, call.Out(0)) {
			want = Stream
		}
		if m.Name == Run {
			want = Background
		}
		if m.Kind != want {
			t.Errorf("%s is of kind %d, want %d", m.Name, m.Kind, want)
		}
	}
}

func allFields() []string {
	var fields []string
	for _, m := range Methods() {
		fields = append(fields, m.Name.Field())
	}
	return fields
}

// TestEveryCallIsIntercepted: each call reaches the function once, as itself and with its
// arguments, and each passes it on to the backend below.
func TestEveryCallIsIntercepted(t *testing.T) {
	var above, below []Name
	failure := errors.New("as it was returned")
	inner := Lend(allFields(), func(_ context.Context, c *Call, _ func(context.Context) error) error {
		below = append(below, c.Name)
		return failure
	})
	b := Wrap(inner, func(ctx context.Context, c *Call, next func(context.Context) error) error {
		above = append(above, c.Name)
		return next(ctx)
	})
	var want []Name
	for _, m := range Methods() {
		if m.Kind == Local {
			continue
		}
		want = append(want, m.Name)
		seen := 0
		_, err := Invoke(t.Context(), b, m.Name, func(args []any) error {
			seen = len(args)
			return nil
		})
		if !errors.Is(err, failure) {
			t.Errorf("%s: %v, want the error of the backend", m.Name, err)
		}
		in, call := 0, contract()[m.Name]
		for i := range call.NumIn() {
			if call.In(i) != reflect.TypeFor[context.Context]() {
				in++
			}
		}
		if seen != in {
			t.Errorf("%s is shown with %d arguments of %d", m.Name, seen, in)
		}
	}
	if !slices.Equal(above, want) || !slices.Equal(below, want) {
		t.Errorf("intercepted %v, reached the backend %v, want %v", above, below, want)
	}
}

func TestNilStaysNil(t *testing.T) {
	b := Wrap(backend.Backend{Name: "none"}, nil)
	v := reflect.ValueOf(b)
	for i := range v.NumField() {
		if f := v.Field(i); (f.Kind() == reflect.Interface || f.Kind() == reflect.Func) && !f.IsNil() {
			t.Errorf("%s appeared", v.Type().Field(i).Name)
		}
	}
	if fields := Lent(b); len(fields) > 0 || b.Name != "none" {
		t.Errorf("%q lends %v", b.Name, fields)
	}
}

// TestSubjects: a call says which pod it is about.
func TestSubjects(t *testing.T) {
	pod := &corev1.Pod{}
	pod.UID = "u"
	ref := backend.Ref{UID: "u", Attempt: 7}
	container := backend.ContainerRef{Pod: ref, Name: "c", Attempt: 7}
	spec := backend.ContainerSpec{Pod: pod, Container: corev1.Container{Name: "c"}, Attempt: 2}
	var got Subject
	b := Lend(allFields(), func(_ context.Context, c *Call, _ func(context.Context) error) error {
		got = c.Subject()
		return nil
	})
	ctx := t.Context()
	launch, place := backend.LaunchSpec{Pod: pod, Attempt: 3}, backend.VolumeSpec{Pod: pod, Name: "v"}
	for want, call := range map[Subject]func() error{
		{Pod: "u", Attempt: 3}:                 func() error { return b.Pods.Launch(ctx, ctx, launch) },
		{}:                                     func() error { return b.Pods.Launch(ctx, ctx, backend.LaunchSpec{}) },
		{Pod: "u"}:                             func() error { return b.Pods.Stop(ctx, ref, 0) },
		{Pod: "u", Container: "c", Attempt: 2}: func() error { return b.Containers.Start(ctx, ref, spec) },
		{Pod: "u", Container: "c"}:             func() error { return b.Resize.Resize(ctx, container, spec) },
		{Pod: "u", Volume: "v"}:                func() error { return b.Files.Place(ctx, place) },
	} {
		got = Subject{Pod: "stale"}
		if err := call(); err != nil || got != want {
			t.Errorf("a call is about %+v, want %+v (%v)", got, want, err)
		}
	}
	for n, want := range []types.UID{"", "a", ""} {
		if _, err := b.Pods.Inspect(ctx, []types.UID{"a", "b"}[:n]); err != nil || got.Pod != want {
			t.Errorf("inspecting %d pods is about %q, want %q (%v)", n, got.Pod, want, err)
		}
	}
}

// TestArgumentsAndReplies: a function may make the call with other arguments, answer by
// itself, and lose the reply.
func TestArgumentsAndReplies(t *testing.T) {
	left, right := net.Pipe()
	defer left.Close()
	lend := Lend([]string{"Images", "Dial"}, func(_ context.Context, c *Call, _ func(context.Context) error) error {
		switch c.Name {
		case ImagesFind:
			*c.Reply.(*string) = "found " + *Arg[string](c)
		case DialDial:
			*c.Reply.(*net.Conn) = left
		default:
		}
		return nil
	})
	b := Wrap(lend, func(ctx context.Context, c *Call, next func(context.Context) error) error {
		switch c.Name {
		case ImagesFind:
			*Arg[string](c) = "other"
		case ImagesPull:
			c.Reply.(*backend.PulledImage).ID = "by itself"
			return nil
		case DialDial:
			err := next(ctx)
			c.Drop()
			return err
		default:
		}
		return next(ctx)
	})
	if id, err := b.Images.Find(t.Context(), "one"); id != "found other" || err != nil {
		t.Errorf("find: %q, %v", id, err)
	}
	if image, err := b.Images.Pull(t.Context(), "one", nil); image.ID != "by itself" || err != nil {
		t.Errorf("pull: %+v, %v", image, err)
	}
	if conn, err := b.Dial.Dial(t.Context(), backend.Ref{}, ""); conn != nil || err != nil {
		t.Errorf("dial: %v, %v", conn, err)
	}
	if _, err := right.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the reply that was dropped is open: %v", err)
	}
}

// TestDetachedReplies: what a call returns after its caller has gone on reaches nobody.
func TestDetachedReplies(t *testing.T) {
	var late func() error
	lend := Lend([]string{"Exec"}, func(_ context.Context, c *Call, _ func(context.Context) error) error {
		*c.Reply.(*int32) = 3
		return nil
	})
	b := Wrap(lend, func(ctx context.Context, c *Call, next func(context.Context) error) error {
		c.Detach()
		late = func() error { return next(ctx) }
		return nil
	})
	code, err := b.Exec.Exec(t.Context(), backend.ContainerRef{}, backend.ExecSpec{})
	if code != 0 || err != nil || late() != nil || code != 0 {
		t.Errorf("the caller got %d, %v", code, err)
	}
}

// TestInvoke: arguments that cannot be read keep a call from being made.
func TestInvoke(t *testing.T) {
	calls := 0
	b := Lend([]string{"Images"}, func(_ context.Context, c *Call, _ func(context.Context) error) error {
		calls++
		*c.Reply.(*string) = *Arg[string](c) + "!"
		return nil
	})
	reply, err := Invoke(t.Context(), b, ImagesFind, func(args []any) error {
		*args[0].(*string) = "busybox"
		return nil
	})
	if id, ok := reply.(*string); !ok || *id != "busybox!" || err != nil {
		t.Errorf("reply %v, %v", reply, err)
	}
	_, err = Invoke(t.Context(), b, ImagesFind, func([]any) error { return io.EOF })
	if !errors.Is(err, io.EOF) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// wanting notes until when a launch is wanted.
type wanting struct {
	backend.Pods
	wanted context.Context //nolint:containedctx // it is what the test looks at
}

func (w *wanting) Launch(_, wanted context.Context, _ backend.LaunchSpec) error {
	w.wanted = wanted
	return nil
}

// TestWanted: how long a launch is wanted reaches the backend, whatever context a
// decorator makes the call with.
func TestWanted(t *testing.T) {
	inner := &wanting{}
	b := Wrap(backend.Backend{Pods: inner}, func(_ context.Context, _ *Call, next func(context.Context) error) error {
		return next(context.Background())
	})
	wanted, cancel := context.WithCancel(t.Context())
	if err := b.Pods.Launch(t.Context(), wanted, backend.LaunchSpec{}); err != nil {
		t.Fatal(err)
	}
	if cancel(); !errors.Is(inner.wanted.Err(), context.Canceled) {
		t.Error("the backend does not learn that its launch is not wanted any more")
	}
}
