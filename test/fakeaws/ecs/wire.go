package ecs

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	kjson "sigs.k8s.io/json"
)

// Content types: awsJson1.1, and awsJson1.0 for SQS.
const (
	contentType    = "application/x-amz-json-1.1"
	contentTypeSQS = "application/x-amz-json-1.0"
)

// apiError is an AWS error answer.
type apiError struct {
	Code, Message string
	// Status is 400 if zero.
	Status int
	// ResourceIDs are ConflictException's.
	ResourceIDs []string
}

// failf makes a 400 with a code and a message.
func failf(code, format string, args ...any) *apiError {
	return &apiError{Code: code, Message: fmt.Sprintf(format, args...)}
}

func clientError(format string, args ...any) *apiError {
	return failf("ClientException", format, args...)
}

func invalidParameter(format string, args ...any) *apiError {
	return failf("InvalidParameterException", format, args...)
}

// reworded is the same error in other words.
func (e *apiError) reworded() *apiError {
	out := *e
	out.Message = "This cannot be done as things are. Consult the documentation."
	return &out
}

// writeError writes awsJson's error: the type with the service's namespace, as
// AWS does. svc is nil where no service was found.
func writeError(w http.ResponseWriter, svc *service, e *apiError) {
	status := e.Status
	if status == 0 {
		status = http.StatusBadRequest
	}
	namespace, ct := "com.amazonaws.ecs#", contentType
	if svc != nil {
		namespace, ct = svc.namespace, svc.contentType
	}
	body := map[string]any{"__type": namespace + e.Code, "message": e.Message}
	if e.ResourceIDs != nil {
		body["resourceIds"] = e.ResourceIDs
	}
	w.Header().Set("X-Amzn-Errortype", e.Code)
	write(w, ct, status, body)
}

func writeJSON(w http.ResponseWriter, ct string, v any) { write(w, ct, http.StatusOK, v) }

func write(w http.ResponseWriter, ct string, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil { // our own types: a programming error
		panic(err)
	}
	w.Header().Set("Content-Type", ct)
	w.Header().Set("Content-Length", strconv.Itoa(len(b))) // as AWS does, never in chunks
	w.WriteHeader(status)
	// The client has gone if this fails; nobody is left to tell.
	_, _ = w.Write(b)
}

// decode reads a request. Names are case-sensitive; members that are unknown,
// twice there or of a wrong type are refused (AWS answers SerializationException
// for a wrong type; it is stricter than AWS about unknown members, so that a
// misspelt one is found).
func decode(body []byte, into any) *apiError {
	strict, err := kjson.UnmarshalStrict(body, into)
	if err != nil {
		return failf("SerializationException", "%v", err)
	}
	if len(strict) > 0 {
		texts := make([]string, len(strict))
		for i, e := range strict {
			texts[i] = e.Error()
		}
		return failf("SerializationException", "%s", strings.Join(texts, "; "))
	}
	return nil
}

// epoch is a timestamp as awsJson1.1 writes it: a number of seconds.
type epoch time.Time

// MarshalJSON writes seconds with milliseconds, as ECS does.
func (t epoch) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(time.Time(t).UnixMilli())/1000, 'f', 3, 64), nil
}

func encodeToken(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func decodeToken(t string) (string, bool) {
	b, err := base64.StdEncoding.DecodeString(t)
	return string(b), err == nil
}

// failure is an entry of failures[] (ECS API, Failure).
type failure struct {
	Arn    string `json:"arn,omitempty"`
	Reason string `json:"reason"`
	Detail string `json:"detail,omitempty"`
}
