package ecs

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	kjson "sigs.k8s.io/json"
)

const contentType = "application/x-amz-json-1.1"

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

// writeError writes awsJson1.1's error: the type with a namespace, as AWS does.
func writeError(w http.ResponseWriter, e *apiError) {
	status := e.Status
	if status == 0 {
		status = http.StatusBadRequest
	}
	body := map[string]any{"__type": "com.amazonaws.ecs#" + e.Code, "message": e.Message}
	if e.ResourceIDs != nil {
		body["resourceIds"] = e.ResourceIDs
	}
	w.Header().Set("X-Amzn-Errortype", e.Code)
	writeJSON(w, status, body)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil { // our own types: a programming error
		panic(err)
	}
	w.Header().Set("Content-Type", contentType)
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

// failure is an entry of failures[] (ECS API, Failure).
type failure struct {
	Arn    string `json:"arn,omitempty"`
	Reason string `json:"reason"`
	Detail string `json:"detail,omitempty"`
}
