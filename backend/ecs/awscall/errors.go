package awscall

import (
	"errors"
	"net/http"
	"strings"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/burstlet/burstlet/backend"
)

// classByCode gives AWS's error codes their class (ECS API, "Common error types"
// and the errors of each action). nil is transient: retried, with an Event.
var classByCode = map[string]error{
	"ThrottlingException":      backend.ErrThrottled,
	"Throttling":               backend.ErrThrottled,
	"TooManyRequestsException": backend.ErrThrottled,
	"RequestLimitExceeded":     backend.ErrThrottled,

	"AccessDeniedException":               backend.ErrDenied,
	"AccessDenied":                        backend.ErrDenied,
	"BlockedException":                    backend.ErrDenied,
	"ExpiredToken":                        backend.ErrDenied,
	"ExpiredTokenException":               backend.ErrDenied,
	"IncompleteSignature":                 backend.ErrDenied,
	"InvalidClientTokenId":                backend.ErrDenied,
	"InvalidSignatureException":           backend.ErrDenied,
	"MissingAuthenticationToken":          backend.ErrDenied,
	"MissingAuthenticationTokenException": backend.ErrDenied,
	"NotAuthorized":                       backend.ErrDenied,
	"OptInRequired":                       backend.ErrDenied,
	"RequestExpired":                      backend.ErrDenied,
	"SignatureDoesNotMatch":               backend.ErrDenied,
	"UnrecognizedClientException":         backend.ErrDenied,

	"ClientException":           backend.ErrInvalid,
	"InvalidParameterException": backend.ErrInvalid,
	"SerializationException":    backend.ErrInvalid,
	"ValidationException":       backend.ErrInvalid,

	"PlatformTaskDefinitionIncompatibilityException": backend.ErrUnsupported,
	"PlatformUnknownException":                       backend.ErrUnsupported,
	"UnsupportedFeatureException":                    backend.ErrUnsupported,

	"LimitExceededException": backend.ErrCapacity,
	"ConflictException":      backend.ErrExists,
	// The cluster is the node's, not the pod's: no pod may fail for it.
	"ClusterNotFoundException": backend.ErrUnavailable,
	"ServerException":          backend.ErrUnavailable,
	"InternalFailure":          backend.ErrUnavailable,
	"ServiceUnavailable":       backend.ErrUnavailable,
}

// classByText refines ClientException and InvalidParameterException, which AWS
// uses for the pod's faults and for others. The texts are undocumented: what is
// not recognised keeps the class of its code.
var classByText = []struct {
	text  string
	class error
}{
	{"limit on the number of vcpus", backend.ErrCapacity},
	{"capacity is unavailable", backend.ErrCapacity},
	{"too many concurrent attempts", backend.ErrThrottled},
	{"taskdefinition not found", nil},
	{"taskdefinition is inactive", nil},
	// Configuration of the node: transient, so that a pod waits until it is mended.
	{"subnet", nil},
	{"security group", nil},
	{"unable to assume the role", nil},
	{"role is not valid", nil},
	{"no container instances", nil},
}

// Classify gives an error of the SDK its class of package backend and, where AWS's
// answer is recognised, advice. What is no answer of AWS's (no connection, a reply
// that was lost or cannot be read) is Unavailable; nil stays nil.
func Classify(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrNotSent) {
		return err // it says of which class
	}
	var params smithy.InvalidParamsError
	var serial *smithy.SerializationError
	if errors.As(err, &params) || errors.As(err, &serial) {
		return backend.Classed(backend.ErrInvalid, err) // never sent
	}
	var api smithy.APIError
	if !errors.As(err, &api) || status(err) >= http.StatusInternalServerError {
		return backend.Classed(backend.ErrUnavailable, err)
	}
	class, known := classByCode[api.ErrorCode()]
	if !known && status(err) == http.StatusForbidden {
		class = backend.ErrDenied
	}
	if class == backend.ErrInvalid { //nolint:errorlint // a table's value, not a chain
		text := strings.ToLower(api.ErrorMessage())
		for _, c := range classByText {
			if strings.Contains(text, c.text) {
				class = c.class
				break
			}
		}
	}
	err = advised(err, api)
	if class == nil {
		return err
	}
	return backend.Classed(class, err)
}

// status is the HTTP status of an error's answer, 0 if there was none.
func status(err error) int {
	var resp *smithyhttp.ResponseError
	if errors.As(err, &resp) {
		return resp.HTTPStatusCode()
	}
	return 0
}

// IsCode is true for an AWS error with this code.
func IsCode(err error, code string) bool {
	var api smithy.APIError
	return errors.As(err, &api) && api.ErrorCode() == code
}
