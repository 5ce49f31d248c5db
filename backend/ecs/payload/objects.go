package payload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"golang.org/x/time/rate"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
	"github.com/burstlet/burstlet/backend/ecs/intask"
	"github.com/burstlet/burstlet/backend/ecs/intask/podfiles"
)

// ObjectAPI are the calls to S3 that are used.
type ObjectAPI interface {
	PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	DeleteObject(context.Context, *s3.DeleteObjectInput, ...func(*s3.Options)) (*s3.DeleteObjectOutput, error)
	ListObjectsV2(context.Context, *s3.ListObjectsV2Input, ...func(*s3.Options)) (*s3.ListObjectsV2Output, error)
}

// Place is where payloads of single pods go.
type Place struct {
	// Bucket is one of S3; empty: Secrets Manager.
	Bucket string
	// KeyPrefix begins all keys.
	KeyPrefix string
}

// Prefix begins the keys of all objects of a node.
func (p Place) Prefix(node string) string { return p.KeyPrefix + Prefix(node) }

// objectStore is S3, its errors classed, with the objects of one node. Bucket and prefix
// are those of new objects; others are reached by their names.
type objectStore struct {
	api            ObjectAPI
	bucket, prefix string
	keyPrefix      string
	// calls is far below what S3 takes for one prefix, 3,500 that write a second (S3 user
	// guide, "Best practices design patterns: optimizing Amazon S3 performance").
	calls *rate.Limiter
}

func newObjectStore(api ObjectAPI, place Place, node string) *objectStore {
	const perSecond = 500
	return &objectStore{
		api: api, bucket: place.Bucket, prefix: place.Prefix(node), keyPrefix: place.KeyPrefix,
		calls: rate.NewLimiter(perSecond, perSecond),
	}
}

// name is that of an object with a key below the configured prefix.
func (s *objectStore) name(key string) string { return intask.ObjectName(s.bucket, s.keyPrefix+key) }

// create implements keeper.
func (s *objectStore) create(ctx, waiting context.Context, _ backend.Ref, name string, sealed []byte) error {
	if err := awscall.Wait(waiting, s.calls); err != nil {
		return err
	}
	if err := fitsObject(len(sealed) - podfiles.SealOverhead); err != nil {
		return err
	}
	bucket, key, _ := intask.SplitObject(name)
	_, err := s.api.PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: bytes.NewReader(sealed)})
	if err != nil {
		return fmt.Errorf("put object %s: %w", name, classifyObject(err))
	}
	return nil
}

// replace implements keeper. S3 is strongly consistent: what is read later is this.
func (s *objectStore) replace(ctx context.Context, ref backend.Ref, name string, sealed []byte) error {
	return s.create(ctx, ctx, ref, name, sealed)
}

// read implements keeper.
func (s *objectStore) read(ctx context.Context, name string) ([]byte, error) {
	body, err := s.get(ctx, name)
	if errors.Is(err, backend.ErrDenied) {
		// Where listing is granted below a prefix alone, S3 says of an object that is not
		// there that reading it is not allowed (S3 API, GetObject: Permissions).
		bucket, key, _ := intask.SplitObject(name)
		if found, listErr := s.listed(ctx, bucket, key); listErr == nil && len(found) == 0 {
			return nil, backend.Errorf(backend.ErrNotFound, "%w: it is not there", err)
		}
	}
	return body, err
}

func (s *objectStore) get(ctx context.Context, name string) (body []byte, err error) {
	if err := awscall.Wait(ctx, s.calls); err != nil {
		return nil, err
	}
	bucket, key, _ := intask.SplitObject(name)
	out, err := s.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	if err != nil {
		return nil, fmt.Errorf("get object %s: %w", name, classifyObject(err))
	}
	body, err = io.ReadAll(io.LimitReader(out.Body, intask.MaxObject+1))
	switch err = errors.Join(err, out.Body.Close()); {
	case err != nil:
		return nil, backend.Errorf(backend.ErrUnavailable, "get object %s: %w", name, err)
	case len(body) > intask.MaxObject:
		return nil, fmt.Errorf("get object %s: it is none of burstlet's: delete it", name)
	}
	return body, nil
}

// remove implements keeper.
func (s *objectStore) remove(ctx context.Context, name string) error {
	if err := awscall.Wait(ctx, s.calls); err != nil {
		return err
	}
	bucket, key, _ := intask.SplitObject(name)
	_, err := s.api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &bucket, Key: &key})
	if err = classifyObject(err); err != nil && !errors.Is(err, backend.ErrNotFound) {
		return fmt.Errorf("delete object %s: %w", name, err)
	}
	return nil
}

// writableAt implements keeper: there is no quota of writes.
func (*objectStore) writableAt(_ podfiles.Payload, _ int, _ time.Duration, _ bool, now time.Time) time.Time {
	return now
}

// list returns all objects of the node in the configured bucket. An error means unknown.
func (s *objectStore) list(ctx context.Context) ([]Secret, error) {
	if s.bucket == "" {
		return nil, nil
	}
	return s.listed(ctx, s.bucket, s.prefix)
}

// listed are the objects of a bucket whose keys begin with a prefix.
func (s *objectStore) listed(ctx context.Context, bucket, prefix string) ([]Secret, error) {
	in := &s3.ListObjectsV2Input{Bucket: &bucket, Prefix: &prefix}
	var out []Secret
	for range maxPages {
		if err := awscall.Wait(ctx, s.calls); err != nil {
			return nil, err
		}
		page, err := s.api.ListObjectsV2(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("list objects of bucket %s: %w", bucket, classifyObject(err))
		}
		for _, o := range page.Contents {
			if key := aws.ToString(o.Key); strings.HasPrefix(key, prefix) {
				out = append(out, Secret{Name: intask.ObjectName(bucket, key), Created: aws.ToTime(o.LastModified)})
			}
		}
		if !aws.ToBool(page.IsTruncated) {
			return out, nil
		}
		in.ContinuationToken = page.NextContinuationToken
	}
	return nil, backend.Errorf(backend.ErrUnavailable, "list objects of bucket %s: more than %d pages", bucket, maxPages)
}

// classifyObject gives errors of S3 their class (S3 API, "Error responses"). The bucket is
// the node's, not the pod's: no pod may fail for it.
func classifyObject(err error) error {
	const advice = "look at payloadBucket and region in the node's configuration (backend.ecs)"
	switch {
	case err == nil:
		return nil
	case awscall.IsCode(err, "NoSuchKey"), awscall.IsCode(err, "NotFound"):
		return backend.Classed(backend.ErrNotFound, err)
	case awscall.IsCode(err, "SlowDown"):
		return backend.Classed(backend.ErrThrottled, err)
	case awscall.IsCode(err, "NoSuchBucket"), awscall.IsCode(err, "PermanentRedirect"),
		awscall.IsCode(err, "AuthorizationHeaderMalformed"):
		return fmt.Errorf("%w (%s)", err, advice)
	}
	if classed := awscall.Classify(err); !errors.Is(classed, backend.ErrInvalid) {
		return classed
	}
	return err
}
