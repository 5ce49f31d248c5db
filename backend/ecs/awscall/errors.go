package awscall

import (
	"errors"
	"net/http"
	"regexp"
	"slices"
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

	"ClientException":           ErrUnknown,
	"InvalidParameterException": ErrUnknown,
	"SerializationException":    ErrUnknown,
	"ValidationException":       ErrUnknown,

	"PlatformTaskDefinitionIncompatibilityException": backend.ErrUnsupported,
	"UnsupportedFeatureException":                    backend.ErrUnsupported,
	// The platform version is the node's, not the pod's.
	"PlatformUnknownException": nil,

	"LimitExceededException": backend.ErrCapacity,
	"ConflictException":      backend.ErrExists,
	// The cluster is the node's, not the pod's: no pod may fail for it.
	"ClusterNotFoundException": backend.ErrUnavailable,
	"ServerException":          backend.ErrUnavailable,
	"InternalFailure":          backend.ErrUnavailable,
	"ServiceUnavailable":       backend.ErrUnavailable,
}

// ErrUnknown is in the chain of a refusal in words that are not known here. It is of no
// class: whose fault it is, the pod's, the node's or AWS's, the words alone would say, and
// they are undocumented. No pod may fail for it until that is proved otherwise.
var ErrUnknown = errors.New("refused in words that are not known")

// classByText refines ClientException and InvalidParameterException, which AWS uses for
// everybody's faults. nil is the configuration of the node or a definition that is gone:
// transient, so that a pod waits until it is mended. The first that matches counts: a
// throttle may come in the words of what was asked behind it, such as "Error retrieving
// security group information ... Request limit exceeded".
var classByText = []struct {
	text  string
	class error
}{
	{disguised[0], backend.ErrThrottled},
	{disguised[1], backend.ErrThrottled},
	{disguised[2], backend.ErrThrottled},
	{"too many concurrent attempts", backend.ErrThrottled},
	{"limit on the number of vcpus", backend.ErrCapacity},
	{"limit on the number of tasks", backend.ErrCapacity},
	{"capacity is unavailable", backend.ErrCapacity},
	{"taskdefinition not found", nil},
	{"taskdefinition is inactive", nil},
	{"subnet", nil},
	{"security group", nil},
	{"service linked role", nil},
	{"service-linked role", nil},
	{"unable to assume the role", nil},
	{"role is not valid", nil},
	{"capacity provider", nil},
	{"no container instances", nil},
}

// disguised are the words of a throttle that comes with the code of a bad parameter,
// because what was asked behind the call was throttled.
var disguised = [...]string{"request limit exceeded", "requestlimitexceeded", "rate exceeded"}

// IsDisguisedThrottle is true for such a one.
func IsDisguisedThrottle(err error) bool {
	var api smithy.APIError
	if !errors.As(err, &api) || classByCode[api.ErrorCode()] != ErrUnknown { //nolint:errorlint // a table's value
		return false
	}
	text := strings.ToLower(api.ErrorMessage())
	return slices.ContainsFunc(disguised[:], func(words string) bool { return strings.Contains(text, words) })
}

// Classify gives an error of the SDK its class of package backend and, where AWS's
// answer is recognised, advice. What is no answer of AWS's (no connection, a reply
// that was lost or cannot be read) is Unavailable; nil stays nil. A refusal in words that are
// not known has no class, and ErrUnknown in its chain.
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
	switch {
	case !errors.As(err, &api):
		return backend.Classed(backend.ErrUnavailable, &answer{text: requestID.ReplaceAllString(err.Error(), ""), err: err})
	case status(err) >= http.StatusInternalServerError:
		return backend.Classed(backend.ErrUnavailable, plainly(err, api))
	}
	class, known := classByCode[api.ErrorCode()]
	if !known && status(err) == http.StatusForbidden {
		class = backend.ErrDenied
	}
	if class == ErrUnknown { //nolint:errorlint // a table's value, not a chain
		class = classOfText(api.ErrorMessage())
	}
	err = advised(plainly(err, api), api)
	if class == nil {
		return err
	}
	return backend.Classed(class, err)
}

// classOfText is the class of a refusal by its words.
func classOfText(text string) error {
	text = strings.ToLower(text)
	for _, c := range classByText {
		if strings.Contains(text, c.text) {
			return c.class
		}
	}
	return ErrUnknown
}

// answer is an answer of AWS's without what differs each time, the id of the request:
// Events and log lines that say the same must be the same.
type answer struct {
	text string
	err  error
}

func (a *answer) Error() string { return a.text }
func (a *answer) Unwrap() error { return a.err }

// requestID is that of a request in the SDK's own words.
var requestID = regexp.MustCompile(`RequestID: [^,]*, `)

// plainly is an error of the SDK in AWS's words alone.
func plainly(err error, api smithy.APIError) error {
	text := api.ErrorCode()
	if m := api.ErrorMessage(); m != "" {
		text += ": " + m
	}
	var op *smithy.OperationError
	if errors.As(err, &op) {
		text = op.Service() + " " + op.Operation() + ": " + text
	}
	return &answer{text: text, err: err}
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
