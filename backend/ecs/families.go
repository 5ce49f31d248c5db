package ecs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"golang.org/x/time/rate"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
	"github.com/burstlet/burstlet/backend/ecs/identity"
)

// familiesAPI are the calls of the SDK by which definitions are collected.
type familiesAPI interface {
	DescribeTaskDefinition(
		context.Context, *awsecs.DescribeTaskDefinitionInput, ...func(*awsecs.Options),
	) (*awsecs.DescribeTaskDefinitionOutput, error)
	ListTaskDefinitionFamilies(
		context.Context, *awsecs.ListTaskDefinitionFamiliesInput, ...func(*awsecs.Options),
	) (*awsecs.ListTaskDefinitionFamiliesOutput, error)
	ListTaskDefinitions(
		context.Context, *awsecs.ListTaskDefinitionsInput, ...func(*awsecs.Options),
	) (*awsecs.ListTaskDefinitionsOutput, error)
	DeregisterTaskDefinition(
		context.Context, *awsecs.DeregisterTaskDefinitionInput, ...func(*awsecs.Options),
	) (*awsecs.DeregisterTaskDefinitionOutput, error)
	DeleteTaskDefinitions(
		context.Context, *awsecs.DeleteTaskDefinitionsInput, ...func(*awsecs.Options),
	) (*awsecs.DeleteTaskDefinitionsOutput, error)
}

// familyStore is what is known of one node's definitions in ECS.
type familyStore struct {
	api     familiesAPI
	buckets buckets
	// deletes is ECS API, "Request throttling": DeleteTaskDefinitions.
	deletes *rate.Limiter
	prefix  string

	// named are the secrets that definitions name, by ARN: a definition never
	// changes.
	named map[string][]string
}

func newFamilyStore(api familiesAPI, b buckets, node string) *familyStore {
	return &familyStore{
		api: api, buckets: b, deletes: rate.NewLimiter(1, 5), prefix: identity.FamilyPrefix(node),
		named: map[string][]string{},
	}
}

// list returns this node's active families.
func (f *familyStore) list(ctx context.Context) ([]string, error) {
	return f.listBy(ctx, types.TaskDefinitionFamilyStatusActive)
}

func (f *familyStore) listBy(ctx context.Context, status types.TaskDefinitionFamilyStatus) ([]string, error) {
	in := &awsecs.ListTaskDefinitionFamiliesInput{FamilyPrefix: &f.prefix, Status: status, MaxResults: aws.Int32(batch)}
	var out []string
	for range maxPages {
		if err := awscall.Wait(ctx, f.buckets.describeDefinition); err != nil {
			return nil, err
		}
		page, err := f.api.ListTaskDefinitionFamilies(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("list task definition families: %w", awscall.Classify(err))
		}
		for _, family := range page.Families {
			if strings.HasPrefix(family, f.prefix) {
				out = append(out, family)
			}
		}
		if aws.ToString(page.NextToken) == "" {
			return out, nil
		}
		in.NextToken = page.NextToken
	}
	return nil, backend.Errorf(backend.ErrUnavailable, "list task definition families: more than %d pages", maxPages)
}

// revisions returns the ARNs of a family's revisions.
func (f *familyStore) revisions(
	ctx context.Context, family string, status types.TaskDefinitionStatus,
) ([]string, error) {
	if err := awscall.Wait(ctx, f.buckets.describeDefinition); err != nil {
		return nil, err
	}
	// One page: a family has a revision for each process that registered it at the
	// same moment. More are found at the next look.
	out, err := f.api.ListTaskDefinitions(
		ctx, &awsecs.ListTaskDefinitionsInput{FamilyPrefix: &family, Status: status, MaxResults: aws.Int32(batch)},
	)
	if err != nil {
		return nil, fmt.Errorf("list task definitions of %s: %w", family, awscall.Classify(err))
	}
	var own []string
	for _, arn := range out.TaskDefinitionArns {
		if identity.FamilyOf(arn) == family {
			own = append(own, arn)
		}
	}
	return own, nil
}

// secrets returns the full ARNs of the secrets that a definition names.
func (f *familyStore) secrets(ctx context.Context, arn string) ([]string, error) {
	if known, ok := f.named[arn]; ok {
		return known, nil
	}
	if err := awscall.Wait(ctx, f.buckets.describeDefinition); err != nil {
		return nil, err
	}
	out, err := f.api.DescribeTaskDefinition(ctx, &awsecs.DescribeTaskDefinitionInput{TaskDefinition: &arn})
	if err != nil {
		return nil, fmt.Errorf("describe task definition %s: %w", arn, awscall.Classify(err))
	}
	if out.TaskDefinition == nil {
		return nil, backend.Errorf(backend.ErrUnavailable, "describe task definition %s: the answer has none", arn)
	}
	names := []string{}
	for _, c := range out.TaskDefinition.ContainerDefinitions {
		for _, s := range c.Secrets {
			names = append(names, secretARN(aws.ToString(s.ValueFrom)))
		}
		if r := c.RepositoryCredentials; r != nil {
			names = append(names, secretARN(aws.ToString(r.CredentialsParameter)))
		}
	}
	f.named[arn] = names
	return names, nil
}

// secretARN cuts key, stage and version from a reference to a secret, whose ARN has
// seven parts (ECS developer guide, "Secrets Manager secrets").
func secretARN(from string) string {
	const parts = 7
	fields := strings.SplitN(from, ":", parts+1)
	return strings.Join(fields[:min(len(fields), parts)], ":")
}

// deregister makes a family's revisions inactive. It gives way to registrations,
// with which it shares a bucket.
func (f *familyStore) deregister(ctx context.Context, family string) error {
	arns, err := f.revisions(ctx, family, types.TaskDefinitionStatusActive)
	if err != nil {
		return err
	}
	for _, arn := range arns {
		if f.buckets.register.Tokens() < garbageTokens {
			return backend.Errorf(backend.ErrThrottled, "deregister task definition %s: registrations come first", arn)
		}
		if err := awscall.Wait(ctx, f.buckets.register); err != nil {
			return err
		}
		if _, err := f.api.DeregisterTaskDefinition(
			ctx, &awsecs.DeregisterTaskDefinitionInput{TaskDefinition: &arn},
		); err != nil {
			return fmt.Errorf("deregister task definition %s: %w", arn, awscall.Classify(err))
		}
		delete(f.named, arn)
	}
	return nil
}

// maxDeletes is how many definitions one call deletes (ECS API,
// DeleteTaskDefinitions), and purgeCalls how many calls one look makes.
const (
	maxDeletes = 10
	purgeCalls = 10
)

// purge deletes this node's inactive definitions and returns their ARNs. ECS keeps
// each until its tasks are gone.
func (f *familyStore) purge(ctx context.Context) (deleted []string, err error) {
	families, err := f.listBy(ctx, types.TaskDefinitionFamilyStatusInactive)
	if err != nil {
		return nil, err
	}
	var arns []string
	for _, family := range families {
		if len(arns) >= maxDeletes*purgeCalls {
			break
		}
		more, err := f.revisions(ctx, family, types.TaskDefinitionStatusInactive)
		if err != nil {
			return nil, err
		}
		arns = append(arns, more...)
	}
	for len(arns) > 0 {
		n := min(len(arns), maxDeletes)
		if err := awscall.Wait(ctx, f.deletes); err != nil {
			return deleted, err
		}
		out, err := f.api.DeleteTaskDefinitions(ctx, &awsecs.DeleteTaskDefinitionsInput{TaskDefinitions: arns[:n]})
		if err != nil {
			return deleted, fmt.Errorf("delete task definitions: %w", awscall.Classify(err))
		}
		for _, failure := range out.Failures {
			return deleted, backend.Errorf(
				backend.ErrThrottled, "delete task definition %s: %s %s", aws.ToString(failure.Arn), aws.ToString(failure.Reason),
				aws.ToString(failure.Detail),
			)
		}
		deleted, arns = append(deleted, arns[:n]...), arns[n:]
	}
	return deleted, nil
}

// retire lets a family go that was not used since a time, while nobody can take it
// up.
func (d *definitions) retire(
	ctx context.Context, family string, before time.Time, deregister func(context.Context, string) error,
) error {
	known, err := d.take(ctx)
	if err != nil {
		return err
	}
	defer func() { d.slot <- known }()
	if known[family].After(before) {
		return nil
	}
	delete(known, family)
	return deregister(ctx, family)
}
