package clients

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
)

// Config says whose and where the services are.
type Config struct {
	// Region is the AWS region.
	Region string
	// Endpoint is the URL of a test server instead of AWS; empty: AWS.
	Endpoint string
	// AccessKeyID and SecretAccessKey are for such a server; empty: the SDK finds
	// credentials itself (environment, files, role).
	AccessKeyID, SecretAccessKey string
	// HTTPClient sends the requests; nil is the SDK's own.
	HTTPClient *http.Client
	// May is asked of each request that changes something; nil permits none.
	May backend.Permit
}

// Clients are the SDK's, one of each service, with the same credentials.
type Clients struct {
	ECS     *awsecs.Client
	Secrets *secretsmanager.Client
	Objects *s3.Client
	Logs    *cloudwatchlogs.Client
	Queue   *sqs.Client
	ECR     *ecr.Client
	// Credentials sign what no client of the SDK's does, over HTTP: the opening of
	// sessions, and what only doctor asks.
	Credentials aws.CredentialsProvider
	HTTP        aws.HTTPClient

	counts *requestCounts
}

// Calls counts all requests that the clients have sent, each retry for itself.
func (c Clients) Calls() []backend.CallFacts { return c.counts.facts() }

// Bounds of the one layer of retries, the SDK's.
const (
	// Attempts is how often a request is sent at most.
	Attempts   = 3
	maxBackoff = 5 * time.Second
)

// disguisedThrottle has what is a throttle by its words alone repeated as those that the
// SDK knows.
func disguisedThrottle(err error) aws.Ternary {
	if awscall.IsDisguisedThrottle(err) {
		return aws.TrueTernary
	}
	return aws.UnknownTernary
}

// plainObjects has bodies sent as they are: the signature covers their hash already, and
// sums in trailers would be sent over HTTPS alone.
func plainObjects(o *s3.Options) {
	o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
}

// New makes the clients. It reads credentials and calls nothing.
func New(ctx context.Context, cfg Config) (Clients, error) {
	loaded := aws.Config{Region: cfg.Region}
	if cfg.AccessKeyID != "" { // a test server: nothing of this machine's AWS settings
		loaded.Credentials = credentials.NewStaticCredentialsProvider(cfg.AccessKeyID, cfg.SecretAccessKey, "")
	} else {
		var err error
		if loaded, err = awsconfig.LoadDefaultConfig(ctx, awsconfig.WithRegion(cfg.Region)); err != nil {
			return Clients{}, fmt.Errorf("load AWS configuration: %w", err)
		}
	}
	loaded.Retryer = func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts, o.MaxBackoff = Attempts, maxBackoff
			o.Retryables = append(o.Retryables, retry.IsErrorRetryableFunc(disguisedThrottle))
		})
	}
	if cfg.HTTPClient != nil {
		loaded.HTTPClient = cfg.HTTPClient
	}
	if cfg.Endpoint != "" {
		loaded.BaseEndpoint = aws.String(cfg.Endpoint)
	}
	counts := newRequestCounts()
	loaded.APIOptions = append(loaded.APIOptions, counts.listen, leaving(cfg.May))
	return Clients{
		ECS:         awsecs.NewFromConfig(loaded),
		Secrets:     secretsmanager.NewFromConfig(loaded),
		Objects:     s3.NewFromConfig(loaded, plainObjects),
		Logs:        cloudwatchlogs.NewFromConfig(loaded),
		Queue:       sqs.NewFromConfig(loaded),
		ECR:         ecr.NewFromConfig(loaded),
		Credentials: loaded.Credentials, HTTP: loaded.HTTPClient, counts: counts,
	}, nil
}
