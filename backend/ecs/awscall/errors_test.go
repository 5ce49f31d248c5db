package awscall

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/burstlet/burstlet/backend"
)

// disguisedText is a throttle of EC2's as RunTask passes it on.
const disguisedText = "Error retrieving security group information for [sg-a]: Request limit exceeded. (ErrorCode: " +
	"RequestLimitExceeded)"

// What is not known says so, and what is known does not.
func TestWhatIsUnknown(t *testing.T) {
	for err, want := range map[*smithy.GenericAPIError]bool{
		{Code: "ClientException", Message: "x"}:                                         true,
		{Code: "InvalidParameterException"}:                                             true,
		{Code: "InvalidParameterException", Message: disguisedText}:                     false,
		{Code: "ClientException", Message: "TaskDefinition not found."}:                 false,
		{Code: "ClientException", Message: "Unable to assume the service linked role."}: false,
		{Code: "AccessDeniedException", Message: "x"}:                                   false,
		{Code: "SomethingNewException", Message: "x"}:                                   false,
	} {
		if got := errors.Is(Classify(err), ErrUnknown); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// Two answers that say the same read the same, whatever the ids of their requests.
func TestTheTextOfAnAnswer(t *testing.T) {
	answer := func(id string) error {
		return &smithy.OperationError{ServiceID: "ECS", OperationName: "StopTask", Err: &awshttp.ResponseError{
			ResponseError: &smithyhttp.ResponseError{
				Response: &smithyhttp.Response{Response: &http.Response{StatusCode: http.StatusBadRequest}},
				Err:      &smithy.GenericAPIError{Code: "InvalidParameterException", Message: "The referenced task was not found."},
			},
			RequestID: id,
		}}
	}
	a, b := Classify(answer("one")), Classify(answer("two"))
	if a.Error() != b.Error() ||
		a.Error() != "ECS StopTask: InvalidParameterException: The referenced task was not found." {
		t.Errorf("%v\n%v", a, b)
	}
	if !IsCode(a, "InvalidParameterException") {
		t.Error("its code is lost")
	}
	for name, inner := range map[string]error{
		"a failure of AWS's":            &smithy.GenericAPIError{Code: "ServerException", Message: "Service Unavailable"},
		"an answer that cannot be read": &smithy.DeserializationError{Err: errors.New("unexpected <html>")},
	} {
		failed := func(id string) error {
			return &smithy.OperationError{ServiceID: "ECS", OperationName: "StopTask", Err: &awshttp.ResponseError{
				ResponseError: &smithyhttp.ResponseError{
					Response: &smithyhttp.Response{Response: &http.Response{StatusCode: http.StatusServiceUnavailable}}, Err: inner,
				},
				RequestID: id,
			}}
		}
		a, b := Classify(failed("one")), Classify(failed("two"))
		if a.Error() != b.Error() || !errors.Is(a, backend.ErrUnavailable) {
			t.Errorf("%s: %v\n%v", name, a, b)
		}
	}
}

func TestIsDisguisedThrottle(t *testing.T) {
	for err, want := range map[*smithy.GenericAPIError]bool{
		{Code: "InvalidParameterException", Message: disguisedText}:    true,
		{Code: "ClientException", Message: "Rate exceeded"}:            true,
		{Code: "ThrottlingException", Message: "Rate exceeded"}:        false, // the SDK knows it
		{Code: "InvalidParameterException", Message: "security group"}: false,
	} {
		if got := IsDisguisedThrottle(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}

func TestAdvice(t *testing.T) {
	for text, want := range map[string]string{
		"Unable to assume the service linked role. Please verify": "create-service-linked-role",
		"limit on the number of vCPUs":                            "Service Quotas",
		"ECS was unable to assume the role 'x'":                   "ecs-tasks.amazonaws.com",
		"capacity provider that is not associated":                "PutClusterCapacityProviders",
	} {
		if got := Classify(&smithy.GenericAPIError{
			Code: "ClientException", Message: text,
		}).Error(); !strings.Contains(got, want) {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func TestClassify(t *testing.T) {
	answer := func(code, text string) error {
		return fmt.Errorf("wrapped: %w", &smithy.GenericAPIError{Code: code, Message: text})
	}
	for _, tc := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("connection refused"), "Unavailable"},
		{context.Canceled, "Unavailable"},
		{&smithy.DeserializationError{Err: errors.New("x")}, "Unavailable"},
		{&smithy.SerializationError{Err: errors.New("x")}, "Invalid"},
		{answer("ThrottlingException", ""), "Throttled"},
		{answer("ExpiredTokenException", ""), "Denied"},
		{answer("AccessDeniedException", ""), "Denied"},
		{answer("ClusterNotFoundException", ""), "Unavailable"},
		{answer("ServerException", ""), "Unavailable"},
		{answer("ClientException", "x"), "Transient"},
		{answer("InvalidParameterException", "x"), "Transient"},
		{answer("ValidationException", "x"), "Transient"},
		{answer("PlatformUnknownException", "x"), "Transient"},
		{answer("InvalidParameterException", disguisedText), "Throttled"},
		{answer("InvalidParameterException", "Error retrieving subnet information. Rate exceeded"), "Throttled"},
		{answer("ClientException", "You've reached the limit on the number of tasks you can run concurrently"), "Capacity"},
		{answer("ClientException", "The specified capacity provider is not associated with the cluster"), "Transient"},
		{answer(
			"InvalidParameterException",
			"Unable to assume the service linked role. Please verify that the ECS service linked role exists.",
		), "Transient"},
		{answer("InvalidParameterException", "Error retrieving subnet information for [subnet-1]"), "Transient"},
		{answer("ClientException", "ECS was unable to assume the role 'x' that was provided"), "Transient"},
		{answer("ClientException", "You've reached the limit on the number of vCPUs you can run concurrently"), "Capacity"},
		{answer("UnsupportedFeatureException", ""), "Unsupported"},
		{answer("ConflictException", ""), "Exists"},
		{answer("SomethingNewException", ""), "Transient"},
	} {
		if got := backend.Class(Classify(tc.err)); got != tc.want {
			t.Errorf("%v: got %s, want %s", tc.err, got, tc.want)
		}
	}
}
