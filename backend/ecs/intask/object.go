package intask

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"strings"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/burstlet/burstlet/backend/ecs/intask/podfiles"
)

// objectScheme begins the name of a payload that is an object of S3.
const objectScheme = "s3://"

// MaxObject bounds a payload that is an object.
const MaxObject = 16 << 20

// ObjectName is the name of a payload that is an object.
func ObjectName(bucket, key string) string { return objectScheme + bucket + "/" + key }

// SplitObject is the reverse of ObjectName; false for the name of a secret.
func SplitObject(name string) (bucket, key string, ok bool) {
	rest, ok := strings.CutPrefix(name, objectScheme)
	bucket, key, both := strings.Cut(rest, "/")
	return bucket, key, ok && both && bucket != "" && key != ""
}

// emptySum is SHA-256 of nothing: the body of a GET.
const emptySum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// getObject is S3 API, GetObject. The task role signs it: a URL that burstlet signs would
// end with burstlet's own credentials, after hours.
func (t Task) getObject(ctx context.Context, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	creds, err := t.credentials(ctx)
	if err != nil {
		return nil, err
	}
	bucket, key, _ := SplitObject(name)
	region := t.Env(envRegion)
	url := "https://" + bucket + ".s3." + region + "." + domainOf(region) + "/" + key
	if endpoint := t.Env(EnvEndpoint); endpoint != "" {
		url = endpoint + "/" + bucket + "/" + key
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("get object %s: %w", name, err)
	}
	req.Header.Set("X-Amz-Content-Sha256", emptySum)
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }) // S3's rule
	if err := signer.SignHTTP(ctx, creds, req, emptySum, "s3", region, time.Now()); err != nil {
		return nil, fmt.Errorf("get object %s: sign: %w", name, err)
	}
	answer, status, err := t.call(req, MaxObject+1)
	switch {
	case err != nil:
		return nil, fmt.Errorf("get object %s: %w", name, err)
	case status != http.StatusOK:
		return nil, objectError(name, status, answer)
	case len(answer) > MaxObject:
		return nil, fmt.Errorf("get object %s: %w: %w", name, podfiles.ErrTooLarge, errFinal)
	}
	return answer, nil
}

// objectError is an answer that is none of an object. Without s3:ListBucket, which the task
// role need not have, an object that is not there is a 403 too.
func objectError(name string, status int, answer []byte) error {
	var out struct {
		Code, Message string
	}
	if err := xml.Unmarshal(answer, &out); err != nil {
		return fmt.Errorf("get object %s: status %d without an answer", name, status)
	}
	switch {
	case out.Code == "NoSuchKey":
		return fmt.Errorf("get object %s: %s: %w", name, out.Code, errNoSecret)
	case status == http.StatusForbidden:
		return fmt.Errorf("get object %s: status %d: %s: %s: the task role needs s3:GetObject on it "+
			"(deploy/aws/task-role-policy.json), or it was deleted", name, status, out.Code, out.Message)
	}
	return fmt.Errorf("get object %s: status %d: %s: %s", name, status, out.Code, out.Message)
}
