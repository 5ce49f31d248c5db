package kubeletapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/containerd/log"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// answerError sends an error to the client alone. Who asked for a stream gets a Status: API
// servers up to 1.35 look for one in the answer, in YAML too, and a text with one colon is an
// empty one to them. All others get the text, as from a kubelet.
func answerError(w http.ResponseWriter, r *http.Request, code int, err error) {
	// Without http.Error's newline, which kubectl would show as \n.
	text, kind := []byte(err.Error()), "text/plain; charset=utf-8"
	if upgradable(r) {
		status, encodeErr := json.Marshal(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status:   metav1.StatusFailure, Message: err.Error(), Code: int32(code),
		})
		if encodeErr == nil { // it is of plain fields
			text, kind = status, "application/json"
		}
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	if _, err := w.Write(text); err != nil {
		log.G(r.Context()).WithError(err).Debug("error not sent")
	}
}
