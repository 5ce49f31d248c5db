package helper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/fence"
)

// Names of the operations: the paths of their requests, below "/".
const (
	opFacts    = "Facts"
	opReadFile = "ReadFile"
	opWithin   = "ReadWithin"
	opPrepare  = "Prepare"
	opDiscard  = "Discard"
	opPlace    = "Place"
	opClear    = "Clear"
	opVolumes  = "Volumes"
	opLog      = "Log"
	opRotate   = "Rotate"
	opSweep    = "Sweep"
	opStrays   = "Strays"
	opLimit    = "Limit"
	opUsage    = "Usage"
	opEvicted  = "Evicted"
	opShutdown = "AwaitShutdown"
	opDelay    = "ShutdownDelay"
	opOOM      = "AwaitOOM"
	opSystem   = "SystemLog"
	opLeader   = "Leader"
	opCall     = "Call"
)

type readFileArgs struct {
	Path string
	Max  int64
}

type volumesArgs struct{ Root, Node string }

// logArgs is host.LogRequest without its channel, which is the request's body.
type logArgs struct {
	Path               string
	Follow, Timestamps bool
	Tail, LimitBytes   *int64
	Since              time.Time
}

func (a logArgs) request(ended <-chan struct{}) host.LogRequest {
	return host.LogRequest{
		Path: a.Path, Follow: a.Follow, Timestamps: a.Timestamps,
		Tail: a.Tail, LimitBytes: a.LimitBytes, Since: a.Since, Ended: ended,
	}
}

// none is the argument or result of an operation without one.
type none struct{}

// reply is what comes back: some operations return a result with an error.
type reply[R any] struct {
	Result R          `json:"result"`
	Error  *wireError `json:"error,omitempty"`
}

// operation is how one is carried.
type operation struct {
	// args and result are what it takes and gives.
	args, result reflect.Type
	// do takes arguments as they came and returns a reply to be encoded.
	do func(ctx context.Context, h host.Host, args []byte) any
}

// operations are all but Log and SystemLog, which are streams.
func operations() map[string]operation {
	return map[string]operation{
		opFacts: carry(func(ctx context.Context, h host.Host, _ none) (host.Facts, error) { return h.Facts(ctx) }),
		opReadFile: carry(func(ctx context.Context, h host.Host, a readFileArgs) ([]byte, error) {
			return h.ReadFile(ctx, a.Path, a.Max)
		}),
		opWithin: carry(func(ctx context.Context, h host.Host, f host.FileWithin) ([]byte, error) {
			return h.ReadWithin(ctx, f)
		}),
		opPrepare: carry(func(ctx context.Context, h host.Host, p host.Preparation) (host.Prepared, error) {
			return h.Prepare(ctx, p)
		}),
		opDiscard: carry(
			func(ctx context.Context, h host.Host, d host.Discard) (host.Discarded, error) {
				return h.Discard(ctx, d)
			},
		),
		opPlace: carry(
			func(ctx context.Context, h host.Host, v host.Volume) (none, error) { return none{}, h.Place(ctx, v) },
		),
		opClear: carry(
			func(ctx context.Context, h host.Host, p host.PodDir) (none, error) { return none{}, h.Clear(ctx, p) },
		),
		opVolumes: carry(func(ctx context.Context, h host.Host, a volumesArgs) ([]host.Placed, error) {
			return h.Volumes(ctx, a.Root, a.Node)
		}),
		opRotate: carry(
			func(ctx context.Context, h host.Host, r host.Rotation) ([]string, error) { return h.Rotate(ctx, r) },
		),
		opSweep: carry(func(ctx context.Context, h host.Host, s host.Sweep) (none, error) { return none{}, h.Sweep(ctx, s) }),
		opStrays: carry(func(ctx context.Context, h host.Host, pods []host.Known) ([]string, error) {
			return h.Strays(ctx, pods)
		}),
		opLimit: carry(
			func(ctx context.Context, h host.Host, c host.Cgroup) (time.Duration, error) { return h.Limit(ctx, c) },
		),
		opUsage: carry(func(ctx context.Context, h host.Host, r host.UsageRequest) (host.Usage, error) {
			return h.Usage(ctx, r)
		}),
		opEvicted: carry(func(ctx context.Context, h host.Host, r host.EvictedRequest) ([]host.Eviction, error) {
			return h.Evicted(ctx, r)
		}),
		opShutdown: carry(func(ctx context.Context, h host.Host, r host.ShutdownRequest) (bool, error) {
			return h.AwaitShutdown(ctx, r)
		}),
		opDelay: carry(func(ctx context.Context, h host.Host, _ none) (host.ShutdownDelay, error) {
			return h.ShutdownDelay(ctx)
		}),
		opOOM: carry(func(ctx context.Context, h host.Host, r host.OOMRequest) (host.OOMKills, error) {
			return h.AwaitOOM(ctx, r)
		}),
		opLeader: carry(func(ctx context.Context, h host.Host, r host.LeaderRequest) (fence.Record, error) {
			return h.Leader(ctx, r)
		}),
		opCall: carry(func(ctx context.Context, h host.Host, c host.Call) ([]byte, error) { return h.Call(ctx, c) }),
	}
}

func carry[A, R any](do func(ctx context.Context, h host.Host, a A) (R, error)) operation {
	carried := func(ctx context.Context, h host.Host, args []byte) any {
		var a A
		if err := decode(args, &a); err != nil {
			return reply[R]{Error: toWire(err)}
		}
		result, err := do(ctx, h, a)
		return reply[R]{Result: result, Error: toWire(err)}
	}
	return operation{args: reflect.TypeFor[A](), result: reflect.TypeFor[R](), do: carried}
}

// errMalformed is all that is told of a message that cannot be decoded: it may
// hold secrets.
var errMalformed = errors.New("malformed message")

// decode says where and of what kind the fault is, never what stands there.
func decode(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%w: field %q", errMalformed, wrong.Field)
	}
	return fmt.Errorf("%w of %d bytes", errMalformed, len(data))
}
