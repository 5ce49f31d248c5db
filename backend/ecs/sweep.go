package ecs

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
)

// sweep is backend.Backend's Sweep: it deletes all of this node's secrets and
// definitions, whatever their age. While a task of it is live nothing is touched.
// Errors: Throttled while registrations come first.
func (c *collector) sweep(ctx context.Context) (removed []string, err error) {
	arns, err := c.remote.list(ctx, awsecs.ListTasksInput{StartedBy: aws.String(c.startedBy)})
	if err != nil {
		return nil, err
	}
	if len(arns) > 0 {
		return nil, fmt.Errorf("%d tasks of this node are live: %s and perhaps more", len(arns), arns[0])
	}
	secrets, err := c.payloads.RemoveAll(ctx)
	for _, name := range secrets {
		removed = append(removed, "secret "+name)
	}
	if err != nil {
		return removed, err
	}
	families, err := c.families.list(ctx)
	if err != nil {
		return removed, err
	}
	for _, family := range families {
		if err := c.families.deregister(ctx, family); err != nil {
			return removed, err
		}
		removed = append(removed, "task definition family "+family)
	}
	purged, err := c.families.purge(ctx)
	for _, arn := range purged {
		removed = append(removed, "task definition "+arn)
	}
	return removed, err
}
