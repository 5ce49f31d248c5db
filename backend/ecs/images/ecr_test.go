package images

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecr/types"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	push "github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/ecstest"
)

// ecrStub hands out a login by region.
type ecrStub struct {
	calls int
	token string
	ends  time.Time
	err   error
}

func (s *ecrStub) GetAuthorizationToken(
	_ context.Context, _ *ecr.GetAuthorizationTokenInput, options ...func(*ecr.Options),
) (*ecr.GetAuthorizationTokenOutput, error) {
	s.calls++
	var o ecr.Options
	for _, set := range options {
		set(&o)
	}
	if s.err != nil {
		return nil, s.err
	}
	token := s.token
	if token == "" {
		token = base64.StdEncoding.EncodeToString([]byte("AWS:" + ecstest.Canary + o.Region))
	}
	return &ecr.GetAuthorizationTokenOutput{AuthorizationData: []types.AuthorizationData{{
		AuthorizationToken: &token, ExpiresAt: aws.Time(s.ends),
	}}}, nil
}

func TestECRLoginsAreKeptUntilTheyAge(t *testing.T) {
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	stub := &ecrStub{ends: now.Add(12 * time.Hour)}
	l := newECRLogins(stub)
	l.now = func() time.Time { return now }
	for _, step := range []struct {
		after  time.Duration
		region string
		calls  int
	}{{0, "eu-west-1", 1}, {10 * time.Hour, "eu-west-1", 1}, {0, "us-east-1", 2}, {70 * time.Minute, "eu-west-1", 3}} {
		now = now.Add(step.after)
		got, err := l.login(t.Context(), step.region)
		must(t, err)
		if got.Username != "AWS" || got.Password != ecstest.Canary+step.region || stub.calls != step.calls {
			t.Errorf("%v: user %q, %d calls", step, got.Username, stub.calls)
		}
	}
}

func TestECRLoginsFailWithoutTheirContents(t *testing.T) {
	for _, token := range []string{"!" + ecstest.Canary, base64.StdEncoding.EncodeToString([]byte(ecstest.Canary))} {
		_, err := newECRLogins(&ecrStub{token: token}).login(t.Context(), "eu-west-1")
		if err == nil || strings.Contains(err.Error(), ecstest.Canary) {
			t.Errorf("%v", err)
		}
	}
	denied := errors.New("denied")
	if _, err := newECRLogins(&ecrStub{err: denied}).login(t.Context(), "eu-west-1"); !errors.Is(err, denied) {
		t.Errorf("%v", err)
	}
}

// A pod without a login of its own is looked up with burstlet's.
func TestECRIsAskedWithBurstletsLogin(t *testing.T) {
	image, err := mutate.Config(empty.Image, v1.Config{Entrypoint: []string{"/app"}})
	must(t, err)
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	guarded := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); guarded && (user != "AWS" || password != ecstest.Canary+"eu-west-1") {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	defer server.Close()
	ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/team/app:1")
	must(t, err)
	must(t, push.Write(ref, image))
	guarded = true

	host := "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
	stub := &ecrStub{ends: time.Now().Add(12 * time.Hour)}
	r, err := NewRegistries(map[string]string{host: server.URL}, stub, nil)
	must(t, err)
	got, err := r.Config(t.Context(), host+"/team/app:1", "amd64", nil)
	must(t, err)
	if len(got.Entrypoint) != 1 || got.Entrypoint[0] != "/app" {
		t.Errorf("%+v", got)
	}
	if _, err := r.Config(t.Context(), host+
		"/team/app:1", "amd64", []backend.Credential{{Username: "u", Password: "other"}}); err == nil || stub.calls != 1 {
		t.Errorf("the pod's own login goes first: %v, %d calls", err, stub.calls)
	}
}
