package intask

import (
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend/ecs/intask/podfiles"
	"github.com/burstlet/burstlet/test/fakeaws/s3"
)

// bucket answers for ECS and for S3, which verifies signatures.
type bucket struct {
	around
	room *s3.Room
	// asks counts what is asked of S3, which denies so many at first.
	asks, denied int
}

func (b *bucket) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == "169.254.170.2" {
		return b.around.RoundTrip(r)
	}
	b.asks++
	w := httptest.NewRecorder()
	out, e := b.room.Answer(s3.Request{
		Call: s3.Parse(r), Header: r.Header, Now: time.Now(),
		May: func(string, string) bool { return b.asks > b.denied && s3.Signed(r, "not-a-secret") },
	})
	if e != nil {
		e.Write(w, false)
	} else {
		out.Write(w)
	}
	return w.Result(), nil
}

// stored puts a payload into the bucket, and returns the environment.
func (b *bucket) stored(t *testing.T, p podfiles.Payload) map[string]string {
	t.Helper()
	const objectKey = "team-a/burstlet/n/pod/u/0.abc.1"
	packed, err := p.Pack()
	must(t, err)
	name, key := ObjectName("payloads", objectKey), podfiles.NewKey()
	sealed, err := podfiles.Seal(key, name, packed)
	must(t, err)
	b.room = s3.New(s3.Config{Region: "eu-central-1", Account: "123456789012", Buckets: []s3.Bucket{{Name: "payloads"}}})
	put, err := http.NewRequestWithContext(
		t.Context(), http.MethodPut, "https://payloads.s3.eu-central-1.amazonaws.com/"+objectKey, nil,
	)
	must(t, err)
	put.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
	if _, e := b.room.Answer(s3.Request{
		Call: s3.Parse(put), Header: put.Header, Body: sealed, Now: time.Now(),
		May: func(string, string) bool { return true },
	}); e != nil {
		t.Fatal(e.Code)
	}
	return map[string]string{
		EnvPayload: name, EnvPayloadKey: key,
		"AWS_REGION": "eu-central-1", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/credentials/x",
	}
}

// Files of a pod alone are one object, which the task role reads.
func TestOwnFilesComeFromABucket(t *testing.T) {
	big := make([]byte, 2<<20) // more than secrets take
	_, _ = rand.Read(big)
	b := &bucket{}
	env := b.stored(t, tokenAt("t", big))
	for name, endpoint := range map[string]string{"AWS": "", "a test server": "http://127.0.0.1:4566"} {
		task, dir, _ := task(t, &b.around, env, "token")
		task.HTTPClient = &http.Client{Transport: b}
		env[EnvEndpoint] = endpoint
		must(t, task.Materialize(t.Context()))
		if got := read(t, filepath.Join(dir, "token/t")); got != string(big) {
			t.Errorf("%s: %d bytes", name, len(got))
		}
	}
}

// A role that was just made takes a while; one that lacks the right is named.
func TestObjectsAreAskedForPatiently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bucket{denied: secretTries + 3}
		env := b.stored(t, tokenAt("t", "canary"))
		task, dir, said := task(t, &b.around, env, "token")
		task.HTTPClient = &http.Client{Transport: b}
		err := task.Materialize(t.Context())
		if err == nil || !strings.Contains(err.Error(), "AccessDenied: Access Denied: the task role needs s3:GetObject") ||
			b.asks != secretTries {
			t.Errorf("after %d calls: %v", b.asks, err)
		}
		if all := err.Error() + said.String(); strings.Contains(all, "canary") || strings.Contains(all, env[EnvPayloadKey]) {
			t.Errorf("it tells secrets: %s", all)
		}
		must(t, task.Materialize(t.Context()))
		if got := read(t, filepath.Join(dir, "token/t")); got != "canary" {
			t.Errorf("%q", got)
		}
	})
}

func TestNamesOfObjects(t *testing.T) {
	for name, want := range map[string]bool{
		"s3://b/k": true, "s3://b/p/burstlet/n/pod/u/0.a.1": true,
		"burstlet/n/pod/u/0.a.1": false, "s3://b": false, "s3://b/": false, "s3:///k": false, "": false,
	} {
		bucket, key, ok := SplitObject(name)
		if ok != want || ok && ObjectName(bucket, key) != name {
			t.Errorf("%q: %q, %q, %v", name, bucket, key, ok)
		}
	}
}
