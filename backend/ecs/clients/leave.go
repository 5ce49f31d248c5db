package clients

import (
	"context"
	"fmt"
	"slices"
	"strings"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
)

// reading begins the names of the operations that change nothing. Every other is asked
// for.
var reading = []string{"BatchGet", "Describe", "Filter", "Get", "Head", "List", "Receive"}

// leaving asks may of each request at the last moment, below retries and signing: a call
// waits for both long after it began.
func leaving(may backend.Permit) func(*middleware.Stack) error {
	ask := func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler,
	) (out middleware.DeserializeOutput, meta middleware.Metadata, err error) {
		operation := awsmiddleware.GetOperationName(ctx)
		if !slices.ContainsFunc(reading, func(word string) bool { return strings.HasPrefix(operation, word) }) {
			if err := may.Ask(operation); err != nil {
				return out, meta, fmt.Errorf("%w: %w", awscall.ErrNotSent, err)
			}
		}
		return next.HandleDeserialize(ctx, in)
	}
	return func(stack *middleware.Stack) error {
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("burstletLeaving", ask), middleware.After)
	}
}
