package ecs

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// sweep is backend.Backend's Sweep: it deletes all of this node's secrets and
// definitions, whatever their age. While a task of it is live nothing is touched.
// Errors: Throttled while registrations come first, and while there may be secrets that
// are not listed yet.
func (c *collector) sweep(ctx context.Context) (removed []string, err error) {
	if err := c.sweeper.Waiting(); err != nil {
		return nil, err
	}
	arns, err := c.remote.list(ctx, awsecs.ListTasksInput{StartedBy: aws.String(c.startedBy)})
	if err != nil {
		return nil, err
	}
	if len(arns) > 0 {
		return nil, fmt.Errorf("%d tasks of this node are live: %s and perhaps more", len(arns), arns[0])
	}
	families, err := c.families.list(ctx)
	if err != nil {
		return nil, err
	}
	if removed, err = c.sweepSecrets(ctx, families); err != nil || len(removed) > 0 {
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

// sweepSecrets comes before the definitions go, which name some.
func (c *collector) sweepSecrets(ctx context.Context, families []string) (removed []string, err error) {
	if c.secretsGone {
		return nil, nil
	}
	named, err := c.namedBy(ctx, families)
	if err != nil {
		return nil, err
	}
	names, err := c.sweeper.Sweep(ctx, named)
	for _, name := range names {
		removed = append(removed, "secret "+name)
	}
	c.secretsGone = err == nil && len(removed) == 0
	return removed, err
}

// namedBy are the secrets that definitions name, by ARN: these are there though no listing
// shows them yet.
func (c *collector) namedBy(ctx context.Context, families []string) (named []string, err error) {
	seen := map[string]bool{}
	for _, family := range families {
		revisions, err := c.families.revisions(ctx, family, types.TaskDefinitionStatusActive)
		if err != nil {
			return nil, err
		}
		for _, arn := range revisions {
			secrets, err := c.families.secrets(ctx, arn)
			if err != nil {
				return nil, err
			}
			for _, s := range secrets {
				if !seen[s] {
					seen[s] = true
					named = append(named, s)
				}
			}
		}
	}
	return named, nil
}
