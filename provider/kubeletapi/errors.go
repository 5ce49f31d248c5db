package kubeletapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/containerd/log"

	"github.com/burstlet/burstlet/backend"
)

// httpStatus is the one place where an error's class becomes an HTTP status.
//
// What kubectl shows of it is the API server's doing: it repeats the text of
// 400, 500, 501 and 502, and replaces that of 404, 429 and 503 by its own words.
func httpStatus(err error) int {
	switch {
	case errors.Is(err, backend.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, backend.ErrInvalid):
		return http.StatusBadRequest
	case errors.Is(err, backend.ErrUnsupported):
		return http.StatusNotImplemented
	case errors.Is(err, backend.ErrUnavailable), errors.Is(err, backend.ErrCapacity):
		return http.StatusServiceUnavailable
	case errors.Is(err, backend.ErrThrottled):
		return http.StatusTooManyRequests
	case errors.Is(err, backend.ErrDenied):
		return http.StatusBadGateway
	default:
		return http.StatusInternalServerError
	}
}

// fail answers a request with an error, and logs what is the server's fault.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		return // Nobody is there to read it.
	}
	code := httpStatus(err)
	if code >= http.StatusInternalServerError {
		log.G(r.Context()).WithError(err).WithField("path", bucket(r.URL.Path)).Warn("kubelet API request failed")
	}
	answerError(w, r, code, err)
}

// answerError sends an error to the client alone.
func answerError(w http.ResponseWriter, r *http.Request, code int, err error) {
	// Without http.Error's newline, which kubectl would show as \n.
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	if _, err := w.Write([]byte(err.Error())); err != nil {
		log.G(r.Context()).WithError(err).Debug("error not sent")
	}
}
