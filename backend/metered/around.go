package metered

import (
	"context"
	"errors"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/intercept"
)

// Wrap puts metrics around every call of b that asks the remote, but for Run, which
// lasts as long as b.
func Wrap(b backend.Backend, m *Metrics) backend.Backend {
	if b.Costs != nil {
		m.costs.add(b.Name, b.Costs)
	}
	m.info.WithLabelValues(b.Name).Set(1)
	m.transports.add(b)
	if b.CgroupsTo != nil {
		b.CgroupsTo(func(operation string, took time.Duration) {
			m.cgroups.WithLabelValues(operation).Observe(took.Seconds())
		})
	}
	return intercept.Wrap(b, m.around)
}

func (m *Metrics) around(ctx context.Context, c *intercept.Call, next func(context.Context) error) error {
	if c.Kind == intercept.Background {
		return next(ctx)
	}
	start := time.Now()
	err := next(ctx)
	m.done(ctx, c, start, err)
	switch c.Name {
	case intercept.FilesPlace:
		m.stored(plugin(&intercept.Arg[backend.VolumeSpec](c).Source), volumeMount, start, err)
	case intercept.FilesClear:
		m.stored("", volumeUnmount, start, err) // all of a pod's
	default:
	}
	return err
}

// done notes one call. Errors of a caller that went away are not the remote's,
// and neither is a NotFound that is the answer to the question.
func (m *Metrics) done(ctx context.Context, c *intercept.Call, start time.Time, err error) {
	m.operations.WithLabelValues(c.Operation).Inc()
	m.duration.WithLabelValues(c.Operation).Observe(time.Since(start).Seconds())
	if err == nil || errors.Is(ctx.Err(), context.Canceled) || (c.Absence && errors.Is(err, backend.ErrNotFound)) {
		return
	}
	m.errors.WithLabelValues(c.Operation).Inc()
	m.classes.WithLabelValues(c.Operation, backend.Class(err)).Inc()
}
