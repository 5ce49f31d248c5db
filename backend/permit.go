package backend

import "context"

// Permit answers whether a change may be made now. What a backend changes by itself
// (Backend.Run) asks it before each change; it is nil, or the reason why not, which is
// of class Throttled. It is cheap, and may be asked by several goroutines at once. The
// nil Permit permits nothing.
type Permit func(change string) error

// Ask is the answer for a change, named in a few words for the error: "rotate logs".
func (p Permit) Ask(change string) error {
	if p == nil {
		return Errorf(ErrThrottled, "%s: nothing may be changed", change)
	}
	return p(change)
}

// Always permits every change: for a process that alone has the node.
func Always(string) error { return nil }

// RunFreely is Run with every change permitted.
func (b Backend) RunFreely(ctx context.Context) error { return b.Run(ctx, Always) }
