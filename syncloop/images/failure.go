package images

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// The kubelet's errors for images (pkg/kubelet/images/types.go and
// k8s.io/cri-api/pkg/errors).
var (
	ErrPull      = errors.New("ErrImagePull")
	ErrNever     = errors.New("ErrImageNeverPull")
	ErrInvalid   = errors.New("InvalidImageName")
	ErrRegistry  = errors.New("RegistryUnavailable")
	ErrSignature = errors.New("SignatureValidationFailed")
	errRuntime   = errors.New("ImageInspectError")
	errCancelled = errors.New("the pod is ending")
)

// Reason is the kubelet's word for an error of EnsureImageExists, as a
// container's waiting reason; empty for one that is not the user's matter. The
// error's text is the waiting message.
func Reason(err error) string {
	for _, class := range []error{ErrPull, ErrNever, ErrInvalid, ErrRegistry, ErrSignature, errRuntime} {
		if errors.Is(err, class) {
			return class.Error()
		}
	}
	return ""
}

// PullFailed is true for the reasons of a pull that failed. The kubelet backs
// off from those alone, 10 s doubling to 5 min, and says ImagePullBackOff.
func PullFailed(reason string) bool {
	return reason == ErrPull.Error() || reason == ErrRegistry.Error() || reason == ErrSignature.Error()
}

// failure is an error in the kubelet's words.
type failure struct {
	class, cause error
	message      string
}

func (f *failure) Error() string   { return f.message }
func (f *failure) Unwrap() []error { return []error{f.class, f.cause} }

// reportFailure records an Event and returns the error.
func reportFailure(event Event, reason string, class, cause error, format string, args ...any) error {
	f := &failure{class: class, cause: cause, message: fmt.Sprintf(format, args...)}
	event(corev1.EventTypeWarning, reason, "%s", f.message)
	return f
}

// notOurs is true where the remote could not be asked: nothing is known of the
// image then, and nothing is to be said of it.
func notOurs(err error) bool {
	return errors.Is(err, backend.ErrUnavailable) || errors.Is(err, backend.ErrThrottled) ||
		errors.Is(err, backend.ErrDenied)
}

// invalidName is for a name that no registry can have.
func invalidName(event Event, image string, cause error) error {
	return reportFailure(event, "InspectFailed", ErrInvalid, backend.Classed(backend.ErrInvalid, cause),
		"Failed to apply default image tag %q: %v", image, cause)
}

// pullFailure sorts the errors of pulls as the runtime names them.
func pullFailure(event Event, image string, cause error) error {
	event(corev1.EventTypeWarning, "Failed", "Failed to pull image %q: %v", image, cause)
	for _, known := range []struct {
		class error
		why   string
	}{{ErrRegistry, "registry is unavailable"}, {ErrSignature, "signature validation failed"}} {
		if rest, ok := named(cause.Error(), known.class.Error()); ok {
			return &failure{
				class: known.class, cause: cause,
				message: fmt.Sprintf("image pull failed for %s because the %s%s", image, known.why, rest),
			}
		}
	}
	return &failure{class: ErrPull, cause: cause, message: cause.Error()}
}

// named finds an error's name at the beginning of a text or after what others
// have put before it, and returns what follows.
func named(text, name string) (rest string, ok bool) {
	if rest, ok = strings.CutPrefix(text, name); ok {
		return rest, true
	}
	for _, before := range []string{": ", "desc = "} {
		if _, rest, ok = strings.Cut(text, before+name); ok {
			return rest, true
		}
	}
	return "", false
}
