package kubeletapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/containerd/log"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/burstlet/burstlet/provider/bound"
)

// bounds are what callers may have under way. Streams and requests together are fewer than
// connections, so that they leave some.
type bounds struct {
	conns *bound.Conns
	// requests are those that end by themselves, streams those that last for as long as
	// their client wants: exec, attach, port-forward, run, logs. /healthz is neither.
	requests, streams *bound.Slots
	// authentications are by the caller's address, authorizations by its user. Most of
	// them last for no time: what is known already is not asked for.
	authentications, authorizations *bound.Shares
	// tokenReviews are all that are under way at the API server.
	tokenReviews *bound.Slots

	bodyTimeout   time.Duration // for a client to send a body
	answerTimeout time.Duration // for a request to be served, and its answer to be read
}

const (
	maxConns           = 1000
	maxStreams         = 500
	maxRequests        = 100
	maxTokenReviews    = 16
	reviewsOfOne       = 4 // of an address, of a user
	reviewsOfOneQueued = 32
	maxBody            = 1 << 20
	// reviewQPS and reviewBurst are the limits of the clients that review tokens and
	// access.
	reviewQPS   = 20
	reviewBurst = 40
)

func newBounds() *bounds {
	return &bounds{
		conns: bound.NewConns(maxConns), streams: bound.NewSlots("streams", maxStreams),
		requests:        bound.NewSlots("requests", maxRequests),
		authentications: bound.NewShares("authentications", reviewsOfOne, reviewsOfOneQueued),
		authorizations:  bound.NewShares("authorizations", reviewsOfOne, reviewsOfOneQueued),
		tokenReviews:    bound.NewSlots("token_reviews", maxTokenReviews),
		bodyTimeout:     30 * time.Second, answerTimeout: 2 * time.Minute,
	}
}

func (b *bounds) register(reg prometheus.Registerer) error {
	if reg == nil {
		return nil
	}
	return reg.Register(bound.NewMetrics("kubelet_api", b.conns, b.requests, b.streams,
		b.authentications, b.authorizations, b.tokenReviews))
}

// outer bounds what may come before anybody knows who the caller is: the size of a body,
// and the time to send it.
func (b *bounds) outer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(b.bodyTimeout)); err != nil {
				log.G(r.Context()).WithError(err).Debug("time of a request's body not bounded")
			}
		}
		next.ServeHTTP(w, r)
	})
}

// inner bounds what callers do who may do it.
func (b *bounds) inner(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		slots := b.requests
		switch path := bucket(r.URL.Path); path {
		case "healthz": // it is cheap, and tells others that the rest is busy
			next.ServeHTTP(w, r)
			return
		case "attach", "containerLogs", "exec", "portForward", "run":
			slots = b.streams
		}
		free, err := slots.Take()
		if err != nil {
			busy(w)
			return
		}
		defer free()
		if slots == b.requests {
			if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(b.answerTimeout)); err != nil {
				log.G(r.Context()).WithError(err).Debug("time of an answer not bounded")
			}
		}
		next.ServeHTTP(w, r)
	})
}

// busy refuses a request for now.
func busy(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests) // the API server's words
}

// isBusy is true for an error that says that too much is under way.
func isBusy(err error) bool { return errors.Is(err, bound.ErrFull) }
