package payload

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	smtypes "github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"
	"github.com/aws/smithy-go"

	"github.com/burstlet/burstlet/backend/ecs/identity"
)

func awsError(code string) error { return &smithy.GenericAPIError{Code: code, Message: "AWS's words"} }

// held is a Secrets Manager and an S3 in memory, for one caller at a time.
type held struct {
	values map[string]string
	// objects are those of values that are S3's.
	objects map[string]bool
	made    map[string]time.Time
	tags    map[string]map[string]string
	calls   []string
	// errors are of calls by what they are and of what: "Create a".
	errors map[string]error
	// fails is the call, by its number, that fails with failure.
	fails   int
	failure error
	// pages are how many entries a listing has in a page; 0: all.
	pages int
}

func newHeld() *held {
	return &held{
		values: map[string]string{}, objects: map[string]bool{}, made: map[string]time.Time{},
		tags: map[string]map[string]string{}, errors: map[string]error{},
	}
}

// call notes a call. An error is of the call, or of all of its kind.
func (h *held) call(what, name string) error {
	h.calls = append(h.calls, what+" "+name)
	if h.failure != nil && len(h.calls) == h.fails+1 {
		return h.failure
	}
	if err := h.errors[what]; err != nil {
		return err
	}
	return h.errors[what+" "+name]
}

func (h *held) arn(name string) *string { return aws.String("arn:" + name) }

func (h *held) CreateSecret(_ context.Context, in *secretsmanager.CreateSecretInput,
	_ ...func(*secretsmanager.Options),
) (*secretsmanager.CreateSecretOutput, error) {
	if err := h.call("Create", *in.Name); err != nil {
		return nil, err
	}
	if _, ok := h.values[*in.Name]; ok {
		return nil, awsError("ResourceExistsException")
	}
	h.values[*in.Name], h.made[*in.Name] = *in.SecretString, time.Now()
	h.tag(*in.Name, in.Tags)
	return &secretsmanager.CreateSecretOutput{ARN: h.arn(*in.Name)}, nil
}

func (h *held) DescribeSecret(_ context.Context, in *secretsmanager.DescribeSecretInput,
	_ ...func(*secretsmanager.Options),
) (*secretsmanager.DescribeSecretOutput, error) {
	name := strings.TrimPrefix(*in.SecretId, *h.arn(""))
	if err := h.call("Describe", name); err != nil {
		return nil, err
	}
	if _, ok := h.values[name]; !ok {
		return nil, awsError("ResourceNotFoundException")
	}
	out := &secretsmanager.DescribeSecretOutput{ARN: h.arn(name), Name: &name}
	for key, value := range h.tags[name] {
		out.Tags = append(out.Tags, smtypes.Tag{Key: &key, Value: &value})
	}
	return out, nil
}

func (h *held) TagResource(_ context.Context, in *secretsmanager.TagResourceInput,
	_ ...func(*secretsmanager.Options),
) (*secretsmanager.TagResourceOutput, error) {
	if err := h.call("Tag", *in.SecretId); err != nil {
		return nil, err
	}
	if _, ok := h.values[*in.SecretId]; !ok {
		return nil, awsError("ResourceNotFoundException")
	}
	h.tag(*in.SecretId, in.Tags)
	return &secretsmanager.TagResourceOutput{}, nil
}

func (h *held) tag(name string, tags []smtypes.Tag) {
	if h.tags[name] == nil {
		h.tags[name] = map[string]string{}
	}
	for _, t := range tags {
		h.tags[name][*t.Key] = *t.Value
	}
}

func (h *held) PutSecretValue(_ context.Context, in *secretsmanager.PutSecretValueInput,
	_ ...func(*secretsmanager.Options),
) (*secretsmanager.PutSecretValueOutput, error) {
	if err := h.call("Put", *in.SecretId); err != nil {
		return nil, err
	}
	if _, ok := h.values[*in.SecretId]; !ok {
		return nil, awsError("ResourceNotFoundException")
	}
	h.values[*in.SecretId] = *in.SecretString
	return &secretsmanager.PutSecretValueOutput{}, nil
}

func (h *held) GetSecretValue(_ context.Context, in *secretsmanager.GetSecretValueInput,
	_ ...func(*secretsmanager.Options),
) (*secretsmanager.GetSecretValueOutput, error) {
	if err := h.call("Get", *in.SecretId); err != nil {
		return nil, err
	}
	value, ok := h.values[*in.SecretId]
	if !ok {
		return nil, awsError("ResourceNotFoundException")
	}
	return &secretsmanager.GetSecretValueOutput{SecretString: &value}, nil
}

func (h *held) DeleteSecret(_ context.Context, in *secretsmanager.DeleteSecretInput,
	_ ...func(*secretsmanager.Options),
) (*secretsmanager.DeleteSecretOutput, error) {
	name := strings.TrimPrefix(*in.SecretId, *h.arn(""))
	if err := h.call("Delete", name); err != nil {
		return nil, err
	}
	if _, ok := h.values[name]; !ok {
		return nil, awsError("ResourceNotFoundException")
	}
	delete(h.values, name)
	delete(h.tags, name)
	return &secretsmanager.DeleteSecretOutput{}, nil
}

func (h *held) ListSecrets(_ context.Context, in *secretsmanager.ListSecretsInput,
	_ ...func(*secretsmanager.Options),
) (*secretsmanager.ListSecretsOutput, error) {
	if err := h.call("List", aws.ToString(in.NextToken)); err != nil {
		return nil, err
	}
	names, next := h.after(aws.ToString(in.NextToken), "", false)
	out := &secretsmanager.ListSecretsOutput{NextToken: next}
	for _, name := range names {
		out.SecretList = append(out.SecretList, smtypes.SecretListEntry{
			Name: &name, ARN: h.arn(name), CreatedDate: aws.Time(h.made[name]),
			Tags: []smtypes.Tag{{Key: aws.String(tagNode), Value: aws.String(identity.TagValue("node"))}},
		})
	}
	return out, nil
}

// after is a page of names that follow one.
func (h *held) after(last, prefix string, objects bool) (names []string, next *string) {
	for _, name := range slices.Sorted(maps.Keys(h.values)) {
		if name <= last || !strings.HasPrefix(name, prefix) || h.objects[name] != objects {
			continue
		}
		if h.pages > 0 && len(names) == h.pages {
			return names, aws.String(names[len(names)-1])
		}
		names = append(names, name)
	}
	return names, nil
}

func (h *held) PutObject(_ context.Context, in *s3.PutObjectInput, _ ...func(*s3.Options)) (*s3.PutObjectOutput,
	error,
) {
	if err := h.call("PutObject", *in.Key); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(in.Body)
	h.values[*in.Key], h.made[*in.Key], h.objects[*in.Key] = string(body), time.Now(), true
	return &s3.PutObjectOutput{}, err
}

func (h *held) GetObject(_ context.Context, in *s3.GetObjectInput, _ ...func(*s3.Options)) (*s3.GetObjectOutput,
	error,
) {
	if err := h.call("GetObject", *in.Key); err != nil {
		return nil, err
	}
	value, ok := h.values[*in.Key]
	if !ok {
		return nil, awsError("NoSuchKey")
	}
	return &s3.GetObjectOutput{Body: io.NopCloser(strings.NewReader(value))}, nil
}

func (h *held) DeleteObject(
	_ context.Context, in *s3.DeleteObjectInput, _ ...func(*s3.Options),
) (*s3.DeleteObjectOutput, error) {
	if err := h.call("DeleteObject", *in.Key); err != nil {
		return nil, err
	}
	delete(h.values, *in.Key)
	return &s3.DeleteObjectOutput{}, nil
}

func (h *held) ListObjectsV2(
	_ context.Context, in *s3.ListObjectsV2Input, _ ...func(*s3.Options),
) (*s3.ListObjectsV2Output, error) {
	if err := h.call("ListObjects", aws.ToString(in.ContinuationToken)); err != nil {
		return nil, err
	}
	names, next := h.after(aws.ToString(in.ContinuationToken), *in.Prefix, true)
	out := &s3.ListObjectsV2Output{NextContinuationToken: next, IsTruncated: aws.Bool(next != nil)}
	for _, name := range names {
		out.Contents = append(out.Contents, s3types.Object{Key: &name, LastModified: aws.Time(h.made[name])})
	}
	return out, nil
}
