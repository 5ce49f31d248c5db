package stats

import "time"

// minSample is the shortest time that a rate is measured over.
const minSample = 100 * time.Millisecond

// rates measure how fast counters grow, between one call of Stats and the next.
type rates struct {
	samples map[string]*sample
}

type sample struct {
	at    time.Time
	total uint64
	rate  *uint64
	// current is true of a counter that this call of Stats has seen.
	current bool
}

// begin and end enclose a measurement: counters not seen in it are forgotten.
func (r *rates) begin() {
	for _, s := range r.samples {
		s.current = false
	}
}

func (r *rates) end() {
	for what, s := range r.samples {
		if !s.current {
			delete(r.samples, what)
		}
	}
}

// rate is the growth of a counter in a second; nil as long as it was seen only
// once. A counter that went back counts anew.
func (r *rates) rate(what string, at time.Time, total *uint64) *uint64 {
	if total == nil {
		return nil
	}
	last := r.samples[what]
	if last == nil || *total < last.total || at.Before(last.at) {
		if r.samples == nil {
			r.samples = map[string]*sample{}
		}
		r.samples[what] = &sample{at: at, total: *total, current: true}
		return nil
	}
	last.current = true
	if since := at.Sub(last.at); since >= minSample {
		last.rate = new(uint64(float64(*total-last.total) / since.Seconds()))
		last.at, last.total = at, *total
	}
	return last.rate
}
