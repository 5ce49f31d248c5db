package ecs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// Config says where and as what tasks run.
type Config struct {
	// Region is the AWS region. Required.
	Region string
	// Cluster is the name or ARN of the ECS cluster. Required.
	Cluster string
	// Subnets are the ids of 1 to 16 subnets of one VPC for the tasks. Required.
	Subnets []string
	// SecurityGroups are the ids of up to 5 groups; none is the VPC's default.
	SecurityGroups []string
	// AssignPublicIP gives each task a public address (public subnets need it to
	// pull images).
	AssignPublicIP bool
	// ExecutionRoleARN is the role that pulls from private ECR and writes logs.
	ExecutionRoleARN string
	// TaskRoleARN is the role that the containers have.
	TaskRoleARN string
	// NodeIdentity is unique to the node among all that use the cluster, such as
	// "<cluster UID>/<node name>". Required, and never changed: tasks are found by it.
	NodeIdentity string
	// CPUArchitecture is X86_64 (also if empty) or ARM64.
	CPUArchitecture string
	// LogGroup is the CloudWatch group for the containers' output; empty: none.
	// It needs ExecutionRoleARN.
	LogGroup string
	// Capacity is what the node offers, for example the account's vCPU quota.
	// Missing resources are taken from the node's configuration.
	Capacity corev1.ResourceList
	// Settle is how long a task may take to show in listings; zero is 5 minutes,
	// the longest wait that AWS advises.
	Settle time.Duration

	// Endpoint is the URL of a test server instead of AWS; empty: AWS.
	Endpoint string
	// AccessKeyID and SecretAccessKey are for such a server, never for AWS: with
	// AWS the SDK finds credentials itself (environment, files, role).
	AccessKeyID, SecretAccessKey string
	// HTTPClient sends the requests; nil is the SDK's own.
	HTTPClient *http.Client
}

// Limits and defaults (ECS API, AwsVpcConfiguration, and RunTask: the advice on
// eventual consistency).
const (
	maxSubnets        = 16
	maxSecurityGroups = 5
	defaultSettle     = 5 * time.Minute

	archX86 = "X86_64"
	archARM = "ARM64"
)

var (
	regionPattern = regexp.MustCompile(`^[a-z0-9-]+$`)
	rolePattern   = regexp.MustCompile(`^arn:aws[a-z-]*:iam::[0-9]{12}:role/.+$`)
)

// Validate reports every field that is wrong, by name.
func (c Config) Validate() error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf(field+": "+format, args...))
	}
	c.validatePlace(bad)
	for field, role := range map[string]string{"executionRoleARN": c.ExecutionRoleARN, "taskRoleARN": c.TaskRoleARN} {
		if role != "" && !rolePattern.MatchString(role) {
			bad(field, "must be the ARN of an IAM role, not %q", role)
		}
	}
	if a := c.CPUArchitecture; a != "" && a != archX86 && a != archARM {
		bad("cpuArchitecture", "must be %s or %s, not %q", archX86, archARM, a)
	}
	if c.LogGroup != "" && c.ExecutionRoleARN == "" {
		bad("executionRoleARN", "is required with logGroup, to write logs")
	}
	if c.Settle < 0 {
		bad("settle", "must not be negative")
	}
	if (c.AccessKeyID != "" || c.SecretAccessKey != "") && c.Endpoint == "" {
		bad("accessKeyID", "is only for a test server with endpoint; for AWS use its environment variables, files or roles")
	}
	return errors.Join(errs...)
}

func (c Config) validatePlace(bad func(field, format string, args ...any)) {
	if !regionPattern.MatchString(c.Region) {
		bad("region", "must be an AWS region such as eu-central-1, not %q", c.Region)
	}
	if c.Cluster == "" {
		bad("cluster", "is required")
	}
	if c.NodeIdentity == "" {
		bad("nodeIdentity", "is required")
	}
	c.validateNetwork(bad)
}

func (c Config) validateNetwork(bad func(field, format string, args ...any)) {
	if n := len(c.Subnets); n < 1 || n > maxSubnets {
		bad("subnets", "must have 1 to %d ids, not %d", maxSubnets, n)
	}
	for _, id := range c.Subnets {
		if !strings.HasPrefix(id, "subnet-") {
			bad("subnets", "%q is not the id of a subnet", id)
		}
	}
	if n := len(c.SecurityGroups); n > maxSecurityGroups {
		bad("securityGroups", "must have at most %d ids, not %d", maxSecurityGroups, n)
	}
	for _, id := range c.SecurityGroups {
		if !strings.HasPrefix(id, "sg-") {
			bad("securityGroups", "%q is not the id of a security group", id)
		}
	}
}

// Bounds of the one layer of retries, the SDK's, and of one call with them.
const (
	attempts   = 3
	maxBackoff = 5 * time.Second
	callLimit  = time.Minute
	// maxGrace is the longest stopTimeout (ECS API, ContainerDefinition).
	maxGrace = 120 * time.Second
	relist   = 5 * time.Second
)

// New makes the backend. It reads credentials and calls nothing.
func New(ctx context.Context, cfg Config) (backend.Backend, error) {
	if err := cfg.Validate(); err != nil {
		return backend.Backend{}, fmt.Errorf("configure ecs: %w", err)
	}
	if cfg.CPUArchitecture == "" {
		cfg.CPUArchitecture = archX86
	}
	if cfg.Settle == 0 {
		cfg.Settle = defaultSettle
	}
	client, err := newClient(ctx, cfg)
	if err != nil {
		return backend.Backend{}, fmt.Errorf("configure ecs: %w", err)
	}
	r := newRemote(client, cfg.Cluster)
	return backend.Backend{
		Name:  "ecs",
		Pods:  newPods(cfg, r),
		Node:  node{cfg: cfg, remote: r},
		Check: backend.CheckFunc(Check),
		Limits: backend.Limits{
			Runtime: "ecs", MaxGrace: maxGrace, Settle: cfg.Settle, Call: callLimit, Relist: relist,
		},
	}, nil
}

// newClient makes the SDK's client.
func newClient(ctx context.Context, cfg Config) (*awsecs.Client, error) {
	loaded := aws.Config{Region: cfg.Region}
	if cfg.AccessKeyID != "" { // a test server: nothing of this machine's AWS settings
		loaded.Credentials = credentials.NewStaticCredentialsProvider(cfg.AccessKeyID, cfg.SecretAccessKey, "")
	} else {
		var err error
		if loaded, err = awsconfig.LoadDefaultConfig(ctx, awsconfig.WithRegion(cfg.Region)); err != nil {
			return nil, fmt.Errorf("load AWS configuration: %w", err)
		}
	}
	loaded.Retryer = func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts, o.MaxBackoff = attempts, maxBackoff
		})
	}
	return awsecs.NewFromConfig(loaded, func(o *awsecs.Options) {
		if cfg.HTTPClient != nil {
			o.HTTPClient = cfg.HTTPClient
		}
		if cfg.Endpoint != "" {
			o.BaseEndpoint = aws.String(cfg.Endpoint)
		}
	}), nil
}
