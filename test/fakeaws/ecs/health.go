package ecs

import "time"

// Bounds of HealthCheck (ECS API), in seconds.
const (
	minInterval, maxInterval, stdInterval = 5, 300, 30
	minCheck, maxCheck, stdCheck          = 2, 60, 5
	maxRetries, stdRetries                = 10, 3
	maxStartPeriod                        = 300
)

// check is ECS API, HealthCheck.
func (h *healthCheck) check() *apiError {
	if h == nil {
		return nil
	}
	if len(h.Command) < 2 || h.Command[0] != "CMD" && h.Command[0] != "CMD-SHELL" ||
		h.Command[0] == "CMD-SHELL" && len(h.Command) > 2 {
		return clientError(
			"Invalid healthCheck.command: it must be CMD and a command with its arguments, or CMD-SHELL and one text.",
		)
	}
	for _, b := range []struct {
		name       string
		n          *int32
		least, max int32
	}{
		{"interval", h.Interval, minInterval, maxInterval},
		{"timeout", h.Timeout, minCheck, maxCheck},
		{"retries", h.Retries, 1, maxRetries},
		{"startPeriod", h.StartPeriod, 0, maxStartPeriod},
	} {
		if b.n != nil && (*b.n < b.least || *b.n > b.max) {
			return clientError("Invalid healthCheck.%s: it must be between %d and %d.", b.name, b.least, b.max)
		}
	}
	return nil
}

// phase is a time in which every health check ends in the same way.
type phase struct {
	from    time.Duration // since the container started
	healthy bool
}

// healthChange is a new health status, at an offset from the container's start.
type healthChange struct {
	at     time.Duration
	status string
}

// changes are the health statuses of a container that runs for ever (docker's
// rules, which ECS API, HealthCheck, describes): a check every interval, the first
// after one; one success makes HEALTHY and ends the start period; retries failures
// in a row make UNHEALTHY, those in the start period not counted.
func (h *healthCheck) changes(phases []phase) []healthChange {
	var out []healthChange
	interval := time.Duration(or(h.Interval, stdInterval)) * time.Second
	retries := time.Duration(or(h.Retries, stdRetries))
	grace := time.Duration(value(h.StartPeriod)) * time.Second
	for i, p := range phases {
		if i > 0 && phases[i-1].healthy == p.healthy {
			continue
		}
		end := never
		for _, next := range phases[i+1:] {
			if next.healthy != p.healthy {
				end = next.from
				break
			}
		}
		from := p.from
		if !p.healthy {
			from = max(from, grace)
		}
		first := max(1, (from+interval-1)/interval) * interval
		status := healthy
		if !p.healthy {
			status, first = unhealthy, sum(first, (retries-1)*interval)
		} else if first < end {
			grace = 0 // the start period is over
		}
		if first < end && (len(out) == 0 || out[len(out)-1].status != status) {
			out = append(out, healthChange{first, status})
		}
	}
	return out
}

// Health statuses (ECS API, Container: healthStatus).
const (
	healthy   = "HEALTHY"
	unhealthy = "UNHEALTHY"
	unknown   = "UNKNOWN"
)

// phasesOf is how a health check would end over time: as its own command says, or
// the container's script, else always well (see doc.go).
func (h *healthCheck) phasesOf(container []phase) []phase {
	b := interpret(h.Command[1:])
	if h.Command[0] == "CMD-SHELL" {
		b = interpret([]string{"sh", "-c", h.Command[1]})
	}
	switch {
	case len(b.phases) > 0:
		return b.phases
	case b.after != never:
		return []phase{{0, b.exit == 0}}
	case len(container) > 0:
		return container
	default:
		return []phase{{0, true}}
	}
}
