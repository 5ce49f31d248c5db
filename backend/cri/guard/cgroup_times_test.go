package guard

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// slowCgroups is a host whose operations on cgroups take as long as they say, and fail.
type slowCgroups struct{ host.Host }

var errSlow = errors.New("it took long, and failed")

func (slowCgroups) Prepare(_ context.Context, p host.Preparation) (host.Prepared, error) {
	if p.Cgroup == nil {
		return host.Prepared{}, nil
	}
	return host.Prepared{Cgroup: time.Second}, errSlow
}

func (slowCgroups) Discard(_ context.Context, d host.Discard) (host.Discarded, error) {
	if d.Cgroup == nil {
		return host.Discarded{}, nil
	}
	return host.Discarded{Cgroup: 2 * time.Second}, errSlow
}

func (slowCgroups) Limit(context.Context, host.Cgroup) (time.Duration, error) {
	return 3 * time.Second, errSlow
}

// TestOperationsOnCgroupsAreTold: also those that failed, and none that was not made.
func TestOperationsOnCgroupsAreTold(t *testing.T) {
	may := true
	refused := backend.Errorf(backend.ErrThrottled, "not now")
	told := map[string]time.Duration{}
	times := &CgroupTimes{}
	p := permitted{Host: slowCgroups{}, cgroups: times, may: func(string) error {
		if !may {
			return refused
		}
		return nil
	}}
	all := func() {
		_, prepareErr := p.Prepare(t.Context(), host.Preparation{Cgroup: &host.Cgroup{}})
		_, discardErr := p.Discard(t.Context(), host.Discard{Cgroup: &host.Cgroup{}})
		_, limitErr := p.Limit(t.Context(), host.Cgroup{})
		for _, err := range []error{prepareErr, discardErr, limitErr} {
			if errors.Is(err, errSlow) != may {
				t.Errorf("error %v, permitted %v", err, may)
			}
		}
		_, prepareErr = p.Prepare(t.Context(), host.Preparation{})
		_, discardErr = p.Discard(t.Context(), host.Discard{})
		if err := errors.Join(prepareErr, discardErr); (err == nil) != may {
			t.Errorf("without a cgroup: %v", err)
		}
	}
	all() // nobody asked
	times.Tell(func(operation string, took time.Duration) { told[operation] += took })
	all()
	may = false
	all()
	want := map[string]time.Duration{
		backend.CgroupCreate: time.Second, backend.CgroupDestroy: 2 * time.Second, backend.CgroupUpdate: 3 * time.Second,
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
}
