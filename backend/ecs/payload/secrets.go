package payload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	smtypes "github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"
	"golang.org/x/time/rate"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
	"github.com/burstlet/burstlet/backend/ecs/identity"
)

// API are the calls to Secrets Manager that are used.
type API interface {
	CreateSecret(context.Context, *secretsmanager.CreateSecretInput,
		...func(*secretsmanager.Options)) (*secretsmanager.CreateSecretOutput, error)
	DescribeSecret(context.Context, *secretsmanager.DescribeSecretInput,
		...func(*secretsmanager.Options)) (*secretsmanager.DescribeSecretOutput, error)
	PutSecretValue(context.Context, *secretsmanager.PutSecretValueInput,
		...func(*secretsmanager.Options)) (*secretsmanager.PutSecretValueOutput, error)
	GetSecretValue(context.Context, *secretsmanager.GetSecretValueInput,
		...func(*secretsmanager.Options)) (*secretsmanager.GetSecretValueOutput, error)
	DeleteSecret(context.Context, *secretsmanager.DeleteSecretInput,
		...func(*secretsmanager.Options)) (*secretsmanager.DeleteSecretOutput, error)
	ListSecrets(context.Context, *secretsmanager.ListSecretsInput,
		...func(*secretsmanager.Options)) (*secretsmanager.ListSecretsOutput, error)
	TagResource(context.Context, *secretsmanager.TagResourceInput,
		...func(*secretsmanager.Options)) (*secretsmanager.TagResourceOutput, error)
}

// Names of secrets: secretRoot/<node key>/<kind>/..., so that policies and the
// collection of garbage can tell them apart.
const (
	secretRoot = "burstlet"

	kindPod    = "pod"
	kindShared = "shared"
	kindSalt   = "salt"
)

// PodKeys follows the prefix of a node in the names of its pods' payloads.
const PodKeys = kindPod + "/"

// Prefix begins the names of all secrets of a node.
func Prefix(node string) string { return secretRoot + "/" + identity.NodeKey(node) + "/" }

// tagNode is the tag with the node's identity.
const tagNode = "burstlet/node"

// A listing has pages of pageSize, and no more than maxPages (Secrets Manager API,
// ListSecrets: MaxResults).
const (
	pageSize = 100
	maxPages = 1000
)

// maxSecret is what one secret holds (Secrets Manager API, CreateSecret).
const maxSecret = 65536

// secretStore is Secrets Manager behind its rate limits, its errors classed, with
// the secrets of one node.
type secretStore struct {
	api    API
	ledger *ledger
	node   string // its identity
	prefix string
	// Secrets Manager user guide, "Secrets Manager quotas", per second, account and
	// region.
	creates               *awscall.Queue
	reads, deletes, lists *rate.Limiter
}

func newSecretStore(api API, node string) *secretStore {
	return &secretStore{
		api: api, ledger: &ledger{}, node: node, prefix: Prefix(node),
		creates: awscall.NewQueue(50, 50), reads: rate.NewLimiter(1000, 1000),
		deletes: rate.NewLimiter(50, 50), lists: rate.NewLimiter(100, 100),
	}
}

// Secret is a secret of the node, or an object without an ARN, as listings show it.
type Secret struct {
	Name, ARN string
	Created   time.Time
}

// create makes a secret and returns its full ARN. One of this name that is there
// already is taken for the same: names say what is in them. It waits for its rate
// with waiting. Until a task names it the ledger has its name.
func (s *secretStore) create(ctx, waiting context.Context, name, value string, tags ...smtypes.Tag) (string, error) {
	s.ledger.making(name)
	return s.make(ctx, waiting, name, value, tags...)
}

// make is create of what the ledger need not have.
func (s *secretStore) make(ctx, waiting context.Context, name, value string, tags ...smtypes.Tag) (string, error) {
	if err := awscall.Wait(waiting, s.creates); err != nil {
		return "", err
	}
	// Of the name alone: the token becomes the id of the version, which many may
	// read, and a repeated request is told by it.
	sum := sha256.Sum256([]byte(name))
	out, err := s.api.CreateSecret(ctx, &secretsmanager.CreateSecretInput{
		Name: &name, SecretString: &value, ClientRequestToken: aws.String(hex.EncodeToString(sum[:])),
		Description: aws.String("Made by burstlet for the pods of a node, and deleted by it"),
		Tags: append([]smtypes.Tag{{Key: aws.String(tagNode), Value: aws.String(identity.TagValue(s.node))}},
			tags...),
	})
	if err != nil {
		err = classifySecret(err)
		if errors.Is(err, backend.ErrExists) {
			return s.find(ctx, waiting, name)
		}
		return "", fmt.Errorf("create secret %s: %w", name, err)
	}
	if aws.ToString(out.ARN) == "" {
		return "", backend.Errorf(backend.ErrUnavailable, "create secret %s: the answer names none", name)
	}
	return *out.ARN, nil
}

// put gives a secret another value, and makes it if it is not there: a task has its name.
func (s *secretStore) put(ctx context.Context, name, value string, tags ...smtypes.Tag) error {
	if err := awscall.Wait(ctx, s.creates); err != nil {
		return err
	}
	_, err := s.api.PutSecretValue(ctx, &secretsmanager.PutSecretValueInput{SecretId: &name, SecretString: &value})
	if err = classifySecret(err); errors.Is(err, backend.ErrNotFound) {
		_, err = s.make(ctx, ctx, name, value, tags...)
		return err
	}
	if err != nil {
		return fmt.Errorf("put secret %s: %w", name, err)
	}
	return nil
}

// find returns the full ARN of a secret. Errors: NotFound, also while it is being
// deleted.
func (s *secretStore) find(ctx, waiting context.Context, name string) (string, error) {
	out, err := s.describe(ctx, waiting, name)
	if err != nil {
		return "", err
	}
	return *out.ARN, nil
}

// describe is a secret that is not being deleted. Errors: NotFound.
func (s *secretStore) describe(
	ctx, waiting context.Context, name string,
) (*secretsmanager.DescribeSecretOutput, error) {
	if err := awscall.Wait(waiting, s.reads); err != nil {
		return nil, err
	}
	out, err := s.api.DescribeSecret(ctx, &secretsmanager.DescribeSecretInput{SecretId: &name})
	if err != nil {
		return nil, fmt.Errorf("describe secret %s: %w", name, classifySecret(err))
	}
	if out.DeletedDate != nil || aws.ToString(out.ARN) == "" {
		return nil, backend.Errorf(backend.ErrNotFound, "describe secret %s: it is being deleted", name)
	}
	return out, nil
}

// tag gives a secret a tag.
func (s *secretStore) tag(ctx, waiting context.Context, name, key, value string) error {
	if err := awscall.Wait(waiting, s.creates); err != nil {
		return err
	}
	_, err := s.api.TagResource(ctx, &secretsmanager.TagResourceInput{
		SecretId: &name, Tags: []smtypes.Tag{{Key: &key, Value: &value}},
	})
	if err != nil {
		return fmt.Errorf("tag secret %s: %w", name, classifySecret(err))
	}
	return nil
}

// value returns what is in a secret. Errors: NotFound.
func (s *secretStore) value(ctx, waiting context.Context, name string) (string, error) {
	if err := awscall.Wait(waiting, s.reads); err != nil {
		return "", err
	}
	out, err := s.api.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &name})
	if err != nil {
		return "", fmt.Errorf("get secret %s: %w", name, classifySecret(err))
	}
	return aws.ToString(out.SecretString), nil
}

// remove deletes a secret at once. One that is not there is no error.
func (s *secretStore) remove(ctx context.Context, name string) error {
	if err := awscall.Wait(ctx, s.deletes); err != nil {
		return err
	}
	_, err := s.api.DeleteSecret(ctx, &secretsmanager.DeleteSecretInput{
		SecretId: &name, ForceDeleteWithoutRecovery: aws.Bool(true),
	})
	if err = classifySecret(err); err != nil && !errors.Is(err, backend.ErrNotFound) {
		return fmt.Errorf("delete secret %s: %w", name, err)
	}
	s.ledger.removed(name)
	return nil
}

// list returns all secrets of this node, by name and tag. An error means unknown.
func (s *secretStore) list(ctx context.Context) ([]Secret, error) {
	in := &secretsmanager.ListSecretsInput{
		MaxResults: aws.Int32(pageSize),
		Filters:    []smtypes.Filter{{Key: smtypes.FilterNameStringTypeName, Values: []string{s.prefix}}},
	}
	var out []Secret
	for range maxPages {
		if err := awscall.Wait(ctx, s.lists); err != nil {
			return nil, err
		}
		page, err := s.api.ListSecrets(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("list secrets: %w", classifySecret(err))
		}
		for _, e := range page.SecretList {
			if e.DeletedDate == nil && s.owns(e) {
				out = append(out, Secret{
					Name: aws.ToString(e.Name), ARN: aws.ToString(e.ARN), Created: aws.ToTime(e.CreatedDate),
				})
			}
		}
		if aws.ToString(page.NextToken) == "" {
			return out, nil
		}
		in.NextToken = page.NextToken
	}
	return nil, backend.Errorf(backend.ErrUnavailable, "list secrets: more than %d pages", maxPages)
}

// owns is true of a secret that this node made: its name and its tag say so.
func (s *secretStore) owns(e smtypes.SecretListEntry) bool {
	if !strings.HasPrefix(aws.ToString(e.Name), s.prefix) {
		return false
	}
	for _, t := range e.Tags {
		if aws.ToString(t.Key) == tagNode {
			return aws.ToString(t.Value) == identity.TagValue(s.node)
		}
	}
	return false
}

// classifySecret gives errors of Secrets Manager their class (Secrets Manager API,
// CreateSecret and others: Errors). What it does not like of a request is never the
// pod's fault.
func classifySecret(err error) error {
	switch {
	case err == nil:
		return nil
	case awscall.IsCode(err, "ResourceNotFoundException"):
		return backend.Classed(backend.ErrNotFound, err)
	case awscall.IsCode(err, "ResourceExistsException"):
		return backend.Classed(backend.ErrExists, err)
	case awscall.IsCode(err, "InternalServiceError"):
		return backend.Classed(backend.ErrUnavailable, err)
	case awscall.IsCode(err, "InvalidRequestException"), awscall.IsCode(err, "InvalidParameterException"),
		awscall.IsCode(err, "EncryptionFailure"), awscall.IsCode(err, "DecryptionFailure"),
		awscall.IsCode(err, "PreconditionNotMetException"), awscall.IsCode(err, "InvalidNextTokenException"):
		return err
	default:
		return awscall.Classify(err)
	}
}
