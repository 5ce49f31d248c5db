package intercept

import (
	"context"
	"io"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// Call is one call on its way.
type Call struct {
	*Method
	// Args points to the arguments but contexts. What they point to when next
	// runs is what the call is made with.
	Args []any
	// Reply points to what the caller gets beside the error, and to its zero value
	// before next has run; nil where there is none.
	Reply any
}

// Func is called around each call. next makes the call and fills Reply; a Func may
// leave it out, delay it, or make it with other arguments. What a Func returns is the
// error of the call, and the caller gets Reply with it. A Func serves calls of many
// goroutines at once.
type Func func(ctx context.Context, c *Call, next func(context.Context) error) error

// Arg is the argument of type T, to be read or replaced. It panics where the call has
// none: its caller knows the call.
func Arg[T any](c *Call) *T {
	for _, arg := range c.Args {
		if a, ok := arg.(*T); ok {
			return a
		}
	}
	panic("intercept: " + string(c.Name) + " has no argument of this type")
}

// Wrap returns b with f around every call that asks the remote, Run and Sweep among
// them. A field that is nil stays nil.
func Wrap(b backend.Backend, f Func) backend.Backend {
	for _, c := range capabilities {
		if c.intercept != nil && c.lent(&b) {
			c.intercept(&b, f)
		}
	}
	return b
}

// Lend returns a backend that lends the fields named (as Lent names them), and whose
// calls are f alone: it must not call next. Names that are not known are left out.
func Lend(fields []string, f Func) backend.Backend {
	var b backend.Backend
	for _, c := range capabilities {
		if c.intercept != nil && slices.Contains(fields, c.field) {
			c.intercept(&b, f)
		}
	}
	return b
}

// Invoke makes the call of this name, which b must lend. fill reads its arguments into
// what args point to; its error keeps the call from being made. reply points to what
// the call returned beside the error; nil where that is all.
func Invoke(ctx context.Context, b backend.Backend, name Name, fill func(args []any) error) (reply any, err error) {
	field, method, isMethod := strings.Cut(string(name), ".")
	call := reflect.ValueOf(b).FieldByName(field)
	if isMethod {
		call = call.MethodByName(method)
	}
	in := []reflect.Value{reflect.ValueOf(ctx)}
	var args []any
	for i := 1; i < call.Type().NumIn(); i++ {
		if call.Type().In(i) == reflect.TypeFor[context.Context]() {
			in = append(in, reflect.ValueOf(ctx))
			continue
		}
		arg := reflect.New(call.Type().In(i))
		args, in = append(args, arg.Interface()), append(in, arg.Elem())
	}
	if err := fill(args); err != nil {
		return nil, err
	}
	out := call.Call(in)
	if last := out[len(out)-1]; !last.IsNil() {
		err = last.Interface().(error) // every call of the contract ends with one
	}
	if len(out) > 1 {
		p := reflect.New(out[0].Type())
		p.Elem().Set(out[0])
		reply = p.Interface()
	}
	return reply, err
}

// Drop empties the reply and closes what was opened for it: nobody will use it, so how
// it closes is of no interest.
func (c *Call) Drop() {
	if c.Reply == nil {
		return
	}
	reply := reflect.ValueOf(c.Reply).Elem()
	if opened, ok := reply.Interface().(io.Closer); ok {
		_ = opened.Close()
	}
	reply.SetZero()
}

// Detach gives the call a reply of its own, for a next that runs when the caller has
// gone on.
func (c *Call) Detach() {
	if c.Reply != nil {
		c.Reply = reflect.New(reflect.TypeOf(c.Reply).Elem()).Interface()
	}
}

// Subject is what a call is about. Fields are empty where it is about none, or about
// many.
type Subject struct {
	Pod               types.UID
	Container, Volume string
	// Attempt is that of what the call makes.
	Attempt int
}

// Subject finds the pod of a call, and what of it, in its arguments.
func (c *Call) Subject() Subject {
	var s Subject
	for _, arg := range c.Args {
		switch a := arg.(type) {
		case *backend.Ref:
			s.Pod = a.UID
		case *backend.ContainerRef:
			s.Pod, s.Container = a.Pod.UID, a.Name
		case *backend.LaunchSpec:
			s.Pod, s.Attempt = uidOf(a.Pod), a.Attempt
		case *backend.VolumeSpec:
			s.Pod, s.Volume = uidOf(a.Pod), a.Name
		case *backend.VolumeFile:
			s.Pod, s.Volume = a.Pod.UID, a.Volume
		case *backend.ContainerSpec:
			if c.Makes {
				s.Container, s.Attempt = a.Container.Name, a.Attempt
			}
		case *[]types.UID:
			if len(*a) == 1 {
				s.Pod = (*a)[0]
			}
		}
	}
	return s
}

func uidOf(pod *corev1.Pod) types.UID {
	if pod == nil {
		return ""
	}
	return pod.UID
}

// isSet is true where p points to an interface or func that is not nil.
func isSet(p any) bool { return !reflect.ValueOf(p).Elem().IsNil() }

// around is what the wrappers of a capability share.
type around struct {
	f       Func
	methods []Method // the capability's
}

func (a around) method(name Name) *Method {
	i := slices.IndexFunc(a.methods, func(m Method) bool { return m.Name == name })
	return &a.methods[i]
}

// ask intercepts a call that returns something.
func ask[T any](
	ctx context.Context, a around, name Name, next func(context.Context) (T, error), args ...any,
) (T, error) {
	var reply T
	c := &Call{Method: a.method(name), Args: args, Reply: &reply}
	err := a.f(ctx, c, func(ctx context.Context) error {
		out, err := next(ctx)
		*c.Reply.(*T) = out
		return err
	})
	return reply, err
}

// act intercepts a call that returns an error alone.
func act(ctx context.Context, a around, name Name, next func(context.Context) error, args ...any) error {
	return a.f(ctx, &Call{Method: a.method(name), Args: args}, next)
}
