package provider

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// leases answers from a function.
type leases struct {
	coordinationclient.LeaseInterface
	get func(context.Context) (*coordinationv1.Lease, error)
}

func (l leases) Get(ctx context.Context, _ string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	return l.get(ctx)
}

// Trap: after a failed Get or Create the framework sleeps without looking at its
// context.
func TestLeaseCallsDoNotFailWhileTheyMayHeal(t *testing.T) {
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "n1")
	for _, tc := range []struct {
		name  string
		get   func(ctx context.Context, try int) error
		stop  time.Duration // when the node stops; 0: never
		took  time.Duration
		fails func(error) bool // nil: succeeds
	}{
		{name: "at once", get: func(context.Context, int) error { return nil }},
		{name: "not there", get: func(context.Context, int) error { return notFound }, fails: apierrors.IsNotFound},
		{name: "after three failures", took: 3 * leaseRetry, get: func(_ context.Context, try int) error {
			if try <= 3 {
				return errors.New("refused")
			}
			return nil
		}},
		{
			name: "stopped while waiting", stop: 3 * time.Second, took: 3 * time.Second,
			get:   func(context.Context, int) error { return errors.New("refused") },
			fails: func(err error) bool { return err.Error() == "refused" },
		},
		{
			name: "stopped while calling", stop: 3 * time.Second, took: 3 * time.Second,
			get:   func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() },
			fails: func(err error) bool { return errors.Is(err, context.Canceled) },
		},
		{
			name: "a dead connection", took: callTimeout + leaseRetry,
			get: func(ctx context.Context, try int) error {
				if try == 1 {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stop, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.stop > 0 {
					time.AfterFunc(tc.stop, cancel)
				}
				try := 0
				client := leaseClient{leases{get: func(ctx context.Context) (*coordinationv1.Lease, error) {
					try++
					return &coordinationv1.Lease{}, tc.get(ctx, try)
				}}, boundBy(stop), stop.Done(), func() []metav1.OwnerReference { return nil }, &watcher{}}
				start := time.Now()
				_, err := client.Get(t.Context(), "n1", metav1.GetOptions{})
				if took := time.Since(start); took != tc.took {
					t.Errorf("took %v, want %v", took, tc.took)
				}
				if (tc.fails == nil) != (err == nil) || tc.fails != nil && !tc.fails(err) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}
