package ecs

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/burstlet/burstlet/test/fakeaws/s3"
)

func objectsOf(s *Server, endpoint string, path bool) *sdk.Client {
	return sdk.New(sdk.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(endpoint), HTTPClient: s.Client(), Retryer: aws.NopRetryer{},
		Credentials:  keys,
		UsePathStyle: path, RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
	})
}

func putObject(t *testing.T, c *sdk.Client, bucket, key, body string) error {
	t.Helper()
	_, err := c.PutObject(t.Context(), &sdk.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader(body)})
	return err
}

func TestObjectLife(t *testing.T) {
	world(t, Config{Buckets: []s3.Bucket{{Name: "one"}, {Name: "open", Lists: true}}}, func(t *testing.T, s *Server) {
		for _, c := range []*sdk.Client{objectsOf(s, Endpoint, false), objectsOf(s, "http://127.0.0.1:4", true)} {
			const key = "burstlet/n/pod/u/0.a b+c~.1"
			for _, body := range []string{"one", "two"} {
				if err := putObject(t, c, "one", key, body); err != nil {
					t.Fatal(err)
				}
				got, err := c.GetObject(t.Context(), &sdk.GetObjectInput{Bucket: aws.String("one"), Key: aws.String(key)})
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(got.Body)
				if err != nil || string(text) != body || got.ServerSideEncryption != "AES256" {
					t.Errorf("%q, %v, encrypted with %s", text, err, got.ServerSideEncryption)
				}
			}
			if o := s.Objects(); len(o) != 1 || o[0].Key != key {
				t.Errorf("there are %v", o)
			}
			for range 2 { // again: no error
				if _, err := c.DeleteObject(
					t.Context(), &sdk.DeleteObjectInput{Bucket: aws.String("one"), Key: aws.String(key)},
				); err != nil {
					t.Error(err)
				}
			}
			for bucket, want := range map[string]string{"one": "AccessDenied", "open": "NoSuchKey", "none": "NoSuchBucket"} {
				_, err := c.GetObject(t.Context(), &sdk.GetObjectInput{Bucket: &bucket, Key: aws.String(key)})
				if got := code(t, err); got != want {
					t.Errorf("a key that is not there, in %s: %v", bucket, err)
				}
			}
		}
	})
}

func TestObjectsAreListedInPages(t *testing.T) {
	world(t, Config{Buckets: []s3.Bucket{{Name: "one"}}}, func(t *testing.T, s *Server) {
		c := objectsOf(s, Endpoint, false)
		for i := range 5 {
			if err := putObject(t, c, "one", fmt.Sprint("p/", i), "x"); err != nil {
				t.Fatal(err)
			}
		}
		if err := putObject(t, c, "one", "q", "x"); err != nil {
			t.Fatal(err)
		}
		var keys []string
		pages := sdk.NewListObjectsV2Paginator(
			c, &sdk.ListObjectsV2Input{Bucket: aws.String("one"), Prefix: aws.String("p/"), MaxKeys: aws.Int32(2)},
		)
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range page.Contents {
				keys = append(keys, *o.Key)
				if !o.LastModified.Equal(time.Now()) {
					t.Errorf("%s is of %s", *o.Key, o.LastModified)
				}
			}
		}
		if got := strings.Join(keys, " "); got != "p/0 p/1 p/2 p/3 p/4" || s.Calls()["ListObjectsV2"] != 3 {
			t.Errorf("%s in %d pages", got, s.Calls()["ListObjectsV2"])
		}
	})
}

func TestWhatS3Refuses(t *testing.T) {
	const kmsKey = "arn:aws:kms:us-east-1:123456789012:key/k"
	cfg := Config{Buckets: []s3.Bucket{
		{Name: "one"},
		{Name: "far", Region: "eu-west-1"},
		{Name: "theirs", Owner: "210987654321"},
		{Name: "kms", KMSKey: kmsKey},
	}}
	world(t, cfg, func(t *testing.T, s *Server) {
		c := objectsOf(s, Endpoint, false)
		// What is signed for another region is refused before anything is said of the bucket.
		if got := code(t, putObject(t, c, "far", "k", "x")); got != "AuthorizationHeaderMalformed" {
			t.Errorf("a bucket elsewhere: %s", got)
		}
		_, err := c.ListObjectsV2(
			t.Context(), &sdk.ListObjectsV2Input{Bucket: aws.String("theirs"), ExpectedBucketOwner: aws.String("123456789012")},
		)
		if got := code(t, err); got != "AccessDenied" {
			t.Errorf("another's bucket: %v", err)
		}
		s.Deny(Denial{Action: "kms:GenerateDataKey", Resource: kmsKey})
		if got := code(t, putObject(t, c, "kms", "k", "x")); got != "AccessDenied" {
			t.Errorf("without the right to the key: %s", got)
		}
		s.Deny(Denial{Action: "s3:PutObject", Resource: "arn:aws:s3:::one/no/*"})
		if got := code(t, putObject(t, c, "one", "no/k", "x")); got != "AccessDenied" {
			t.Errorf("without the right: %s", got)
		}
		if err := putObject(t, c, "one", "yes/k", "x"); err != nil {
			t.Error(err)
		}
		s.Inject(Fault{Service: "s3", Action: "PutObject", Code: "SlowDown", Status: http.StatusServiceUnavailable})
		if got := code(t, putObject(t, c, "one", "yes/k", "x")); got != "SlowDown" {
			t.Errorf("a fault: %s", got)
		}
		// What is changed on its way is not stored.
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, Endpoint+"/one/k", bytes.NewReader([]byte("x")))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(
			"Authorization",
			"AWS4-HMAC-SHA256 Credential=AKID/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0",
		)
		r.Header.Set("X-Amz-Content-Sha256", strings.Repeat("0", 64))
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(resp.Body); err != nil || !bytes.Contains(text, []byte("XAmzContentSHA256Mismatch")) {
			t.Errorf("%s, %v", text, err)
		}
	})
}

// A bucket with versions keeps what is deleted until its lifecycle rule ends it, and it is
// paid for.
func TestVersionsEndByTheLifecycle(t *testing.T) {
	world(t, Config{Buckets: []s3.Bucket{{
		Name: "one", Versioned: true, NoncurrentDays: 1,
	}}}, func(t *testing.T, s *Server) {
		c := objectsOf(s, Endpoint, false)
		for range 2 {
			if err := putObject(t, c, "one", "k", strings.Repeat("x", 1<<20)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.DeleteObject(
			t.Context(), &sdk.DeleteObjectInput{Bucket: aws.String("one"), Key: aws.String("k")},
		); err != nil {
			t.Fatal(err)
		}
		time.Sleep(23 * time.Hour)
		if n := s.Versions(); n != 2 || len(s.Objects()) != 0 {
			t.Errorf("%d versions, %v", n, s.Objects())
		}
		time.Sleep(time.Hour)
		if n := s.Versions(); n != 0 {
			t.Errorf("%d versions after a day", n)
		}
		time.Sleep(1000 * time.Hour)
		if got, want := s.Bill().Objects, 2*24.0/730/1024*0.023; math.Abs(got-want) > want/100 {
			t.Errorf("$%g for storage, want $%g", got, want)
		}
	})
}

// What a month costs, by AWS's price lists.
func TestBill(t *testing.T) {
	world(t, Config{Buckets: []s3.Bucket{
		{Name: "one", KMSKey: "k"}, {Name: "saves", KMSKey: "k", BucketKey: true},
	}}, func(t *testing.T, s *Server) {
		create(t, s, "a", "x")
		create(t, s, "gone", "x")
		time.Sleep(365 * time.Hour)
		if _, err := secretsOf(s).DeleteSecret(t.Context(), &secretsmanager.DeleteSecretInput{
			SecretId: aws.String("gone"), ForceDeleteWithoutRecovery: aws.Bool(true),
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(365 * time.Hour)
		c := objectsOf(s, Endpoint, false)
		for _, bucket := range []string{"one", "saves"} {
			if err := putObject(t, c, bucket, "k", "x"); err != nil {
				t.Fatal(err)
			}
			if _, err := c.GetObject(t.Context(), &sdk.GetObjectInput{Bucket: &bucket, Key: aws.String("k")}); err != nil {
				t.Fatal(err)
			}
		}
		got := s.Bill()
		for what, v := range map[string][2]float64{
			"secrets": {got.Secrets, 0.60}, "calls to Secrets Manager": {got.SecretCalls, 3 * 0.000005},
			"calls to S3": {got.ObjectCalls, 2 * (0.000005 + 0.0000004)}, "calls to KMS": {got.KMSCalls, 2 * 0.000003},
		} {
			if math.Abs(v[0]-v[1]) > v[1]/1000 {
				t.Errorf("$%g for %s, want $%g", v[0], what, v[1])
			}
		}
	})
}
