package awscall

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/aws/smithy-go"

	"github.com/burstlet/burstlet/backend"
)

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
		{answer("ClientException", "x"), "Invalid"},
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
