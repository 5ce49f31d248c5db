package ecs

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// clients are the SDK's, one of each service, with the same credentials.
type clients struct {
	ecs     *awsecs.Client
	secrets *secretsmanager.Client
	logs    *cloudwatchlogs.Client
	queue   *sqs.Client
	ecr     *ecr.Client
	// creds sign what no client of the SDK's does: the opening of sessions, and what
	// only doctor asks (query.go), over http.
	creds aws.CredentialsProvider
	http  aws.HTTPClient
	// counts are of all requests that the clients send.
	counts *requestCounts
}

// newClients makes them. It reads credentials and calls nothing.
func newClients(ctx context.Context, cfg Config) (clients, error) {
	loaded := aws.Config{Region: cfg.Region}
	if cfg.AccessKeyID != "" { // a test server: nothing of this machine's AWS settings
		loaded.Credentials = credentials.NewStaticCredentialsProvider(cfg.AccessKeyID, cfg.SecretAccessKey, "")
	} else {
		var err error
		if loaded, err = awsconfig.LoadDefaultConfig(ctx, awsconfig.WithRegion(cfg.Region)); err != nil {
			return clients{}, fmt.Errorf("load AWS configuration: %w", err)
		}
	}
	loaded.Retryer = func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts, o.MaxBackoff = attempts, maxBackoff
		})
	}
	if cfg.HTTPClient != nil {
		loaded.HTTPClient = cfg.HTTPClient
	}
	if cfg.Endpoint != "" {
		loaded.BaseEndpoint = aws.String(cfg.Endpoint)
	}
	counts := newRequestCounts()
	loaded.APIOptions = append(loaded.APIOptions, counts.listen)
	return clients{
		counts:  counts,
		ecs:     awsecs.NewFromConfig(loaded),
		secrets: secretsmanager.NewFromConfig(loaded),
		logs:    cloudwatchlogs.NewFromConfig(loaded),
		queue:   sqs.NewFromConfig(loaded),
		ecr:     ecr.NewFromConfig(loaded),
		creds:   loaded.Credentials,
		http:    loaded.HTTPClient,
	}, nil
}
