package clients

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
)

// requestCounts counts the requests that the SDK sends, each retry for itself: its own
// callers hear only of the last.
type requestCounts struct {
	mu sync.Mutex
	of map[backend.CallFacts]uint64 // by what they have in common, Count being 0
}

func newRequestCounts() *requestCounts {
	return &requestCounts{of: map[backend.CallFacts]uint64{}}
}

// outcomes of requests that have no class of error.
const (
	outcomeOK       = "ok"
	outcomeCanceled = "canceled"
)

// listen takes part in every call of a client, below its retries.
func (c *requestCounts) listen(stack *middleware.Stack) error {
	return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("burstletRequestCounts",
		func(ctx context.Context, in middleware.FinalizeInput,
			next middleware.FinalizeHandler,
		) (middleware.FinalizeOutput, middleware.Metadata, error) {
			out, meta, err := next.HandleFinalize(ctx, in)
			if !errors.Is(err, awscall.ErrNotSent) {
				c.count(ctx, err)
			}
			return out, meta, err
		}), "Retry", middleware.After)
}

func (c *requestCounts) count(ctx context.Context, err error) {
	outcome := outcomeOK
	switch {
	case err == nil:
	case errors.Is(ctx.Err(), context.Canceled):
		outcome = outcomeCanceled
	default:
		outcome = backend.Class(awscall.Classify(err))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[backend.CallFacts{
		Service: awsmiddleware.GetServiceID(ctx), Call: awsmiddleware.GetOperationName(ctx), Outcome: outcome,
	}]++
}

// facts are the counts so far, in a steady order.
func (c *requestCounts) facts() []backend.CallFacts {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]backend.CallFacts, 0, len(c.of))
	for f, n := range c.of {
		f.Count = n
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b backend.CallFacts) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Call, b.Call), cmp.Compare(a.Outcome, b.Outcome))
	})
	return out
}
