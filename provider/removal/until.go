package removal

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/burstlet/burstlet/backend/pause"
)

// lookAgain is the least time between two looks, and after an error.
const lookAgain = time.Second

// until looks again and again until it is done, or until an error that no time
// heals. When the context ends first, the error says what was last in the way.
func until(ctx context.Context, look func() (done bool, again time.Duration, err error)) error {
	var last error
	for {
		done, again, err := look()
		switch {
		case err == nil && done:
			return nil
		case hopeless(err):
			return err
		case ctx.Err() == nil:
			last = err // not the end of the time itself
		}
		if err != nil {
			again = lookAgain
		}
		if pause.For(ctx, again) != nil {
			return errors.Join(ended(ctx), last)
		}
	}
}

// try does something until it succeeds.
func try(ctx context.Context, do func() error) error {
	return until(ctx, func() (bool, time.Duration, error) {
		err := do()
		return err == nil, lookAgain, err
	})
}

// ErrTime says that the time for the removal is over.
var ErrTime = errors.New("the time is over")

func ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ErrTime
	}
	return fmt.Errorf("interrupted: %w", context.Cause(ctx))
}

// hopeless is true for what the API server refuses for good.
func hopeless(err error) bool {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return false
	}
	return errors.Is(err, errForeign) || errors.Is(err, errSelf) || errors.Is(err, errTaken) ||
		apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}
