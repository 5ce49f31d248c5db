package doctor

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
)

// unknownStream is of a log that nobody writes.
const unknownStream = "burstlet/doctor"

// errNoGroup says that the log group is missing, and not only the stream.
var errNoGroup = errors.New("the log group does not exist")

// but takes an error of one code for a success: what was asked for cannot be there,
// and who learns that was let in.
func but(err error, code string) error {
	if awscall.IsCode(err, code) {
		return nil
	}
	return err
}

func (d *doctor) tryDescribeDefinition(ctx context.Context) error {
	_, err := d.clients.ECS.DescribeTaskDefinition(ctx,
		&awsecs.DescribeTaskDefinitionInput{TaskDefinition: aws.String(unknownFamily)})
	return but(err, "ClientException")
}

func (d *doctor) tryListFamilies(ctx context.Context) error {
	_, err := d.clients.ECS.ListTaskDefinitionFamilies(ctx,
		&awsecs.ListTaskDefinitionFamiliesInput{FamilyPrefix: aws.String(unknownFamily), MaxResults: aws.Int32(1)})
	return err
}

func (d *doctor) tryListDefinitions(ctx context.Context) error {
	_, err := d.clients.ECS.ListTaskDefinitions(ctx,
		&awsecs.ListTaskDefinitionsInput{FamilyPrefix: aws.String(unknownFamily), MaxResults: aws.Int32(1)})
	return err
}

func (d *doctor) tryListTasks(ctx context.Context) error {
	_, err := d.clients.ECS.ListTasks(ctx, &awsecs.ListTasksInput{Cluster: &d.cfg.Cluster, MaxResults: aws.Int32(1)})
	return but(err, "ClusterNotFoundException") // it has a line of its own
}

func (d *doctor) tryDescribeTasks(ctx context.Context) error {
	_, err := d.clients.ECS.DescribeTasks(ctx, &awsecs.DescribeTasksInput{
		Cluster: &d.cfg.Cluster,
		Tasks:   []string{d.taskARN()},
	})
	return but(err, "ClusterNotFoundException")
}

func (d *doctor) tryListSecrets(ctx context.Context) error {
	_, err := d.clients.Secrets.ListSecrets(ctx, &secretsmanager.ListSecretsInput{MaxResults: aws.Int32(1)})
	return err
}

func (d *doctor) tryDescribeSecret(ctx context.Context, name string) error {
	_, err := d.clients.Secrets.DescribeSecret(ctx, &secretsmanager.DescribeSecretInput{SecretId: &name})
	return but(err, "ResourceNotFoundException")
}

func (d *doctor) tryReadSecret(ctx context.Context, name string) error {
	_, err := d.clients.Secrets.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &name})
	return but(err, "ResourceNotFoundException")
}

func (d *doctor) tryLogin(ctx context.Context) error {
	_, err := d.clients.ECR.GetAuthorizationToken(ctx, &ecr.GetAuthorizationTokenInput{})
	return err
}

// tryReadLogs tells a group that is missing by AWS's text: the code is the same for a
// stream, which is missing anyway.
func (d *doctor) tryReadLogs(ctx context.Context) error {
	_, err := d.clients.Logs.GetLogEvents(ctx, &cloudwatchlogs.GetLogEventsInput{
		LogGroupName:  &d.cfg.LogGroup,
		LogStreamName: aws.String(unknownStream),
	})
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() == "ResourceNotFoundException" &&
		strings.Contains(strings.ToLower(api.ErrorMessage()), "log group") {
		return errNoGroup
	}
	return but(err, "ResourceNotFoundException")
}

// adviceOn says what to do about an error that is no refusal.
func adviceOn(err error) string {
	if errors.Is(err, errNoGroup) {
		return "aws logs create-log-group --log-group-name with the name in backend.ecs.logGroup (deploy/aws/README.md)"
	}
	return "check the network to that service, and region"
}

// checkQueue asks whether the queue of events is there. Nothing is taken from it: not
// even a look that changes nothing leaves its counters as they are.
func (d *doctor) checkQueue(ctx context.Context) {
	const what = "event queue"
	if d.cfg.EventQueueURL == "" {
		return
	}
	out, err := d.clients.Queue.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl:       &d.cfg.EventQueueURL,
		AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameApproximateNumberOfMessages},
	})
	switch {
	case err == nil:
		d.add(backend.Good(what,
			d.cfg.EventQueueURL+" is there, with about "+out.Attributes["ApproximateNumberOfMessages"]+" messages"))
	case isDeniedCall(err):
		d.unchecked = append(d.unchecked, "the event queue (sqs:GetQueueAttributes)")
	default:
		d.add(backend.Bad(what, d.cfg.EventQueueURL+": "+plainError(err), "make it as deploy/aws/README.md "+
			"says, or leave out backend.ecs.eventQueueURL: tasks are then polled alone"))
	}
}
