package streaming

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"

	"github.com/burstlet/burstlet/backend"
)

// maxStatus is the most that is read of a status.
const maxStatus = 1 << 20

// wrappings are what the servers of streams put before the runtime's own words. The
// kubelet's API, which serves streams too, puts them there again.
var wrappings = []string{
	"Internal error occurred: ", "error executing command in container: ", "error attaching to container: ",
}

// Error is why the runtime did not run a command, attach, or reach a port, in its own
// words.
type Error struct{ Message string }

// Error is the message.
func (e *Error) Error() string { return e.Message }

// Unwrap is syscall.ECONNREFUSED where the words say that a connection was refused.
func (e *Error) Unwrap() error {
	if strings.Contains(strings.ToLower(e.Message), syscall.ECONNREFUSED.Error()) {
		return syscall.ECONNREFUSED
	}
	return nil
}

// readStatus reads how a session ended: the exit code, or an [Error]. Without a
// status the connection broke off. Errors: Unavailable.
func readStatus(text []byte) (int32, error) {
	if len(text) == 0 {
		return 0, backend.Errorf(backend.ErrUnavailable, "the container runtime broke off the connection")
	}
	var s metav1.Status
	if err := json.Unmarshal(text, &s); err != nil {
		return 0, backend.Errorf(
			backend.ErrUnavailable, "the container runtime broke off the connection: read its status: %w", err,
		)
	}
	switch {
	case s.Status == metav1.StatusSuccess:
		return 0, nil
	case s.Status != metav1.StatusFailure:
		return 0, &Error{fmt.Sprintf("the container runtime sent a status of unknown kind %q", s.Status)}
	case s.Reason == remotecommand.NonZeroExitCodeReason:
		return exitCode(s.Details)
	}
	message := s.Message
	for _, w := range wrappings {
		message = strings.TrimPrefix(message, w)
	}
	if message == "" {
		message = "the container runtime gave no reason"
	}
	return 0, &Error{message}
}

func exitCode(details *metav1.StatusDetails) (int32, error) {
	if details != nil {
		for _, cause := range details.Causes {
			if cause.Type != remotecommand.ExitCodeCauseType {
				continue
			}
			code, err := strconv.ParseInt(cause.Message, 10, 32)
			if err != nil {
				return 0, &Error{fmt.Sprintf("the container runtime sent an exit code that is no number: %q", cause.Message)}
			}
			return int32(code), nil
		}
	}
	return 0, &Error{"the container runtime sent no exit code"}
}
