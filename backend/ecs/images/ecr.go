package images

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecr"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
)

// loginRenewal is how long before its end a login is asked for anew; they last 12
// hours (ECR API, GetAuthorizationToken).
const loginRenewal = time.Hour

// ECRAPI is what is called of ECR.
type ECRAPI interface {
	GetAuthorizationToken(context.Context, *ecr.GetAuthorizationTokenInput,
		...func(*ecr.Options)) (*ecr.GetAuthorizationTokenOutput, error)
}

// ecrLogins are burstlet's own logins to ECR, one a region: that of the caller's
// identity is good for all registries whose policies let it in.
type ecrLogins struct {
	api ECRAPI
	now func() time.Time

	mu    sync.Mutex
	known map[string]ecrLogin
}

type ecrLogin struct {
	credential backend.Credential
	until      time.Time
}

func newECRLogins(api ECRAPI) *ecrLogins {
	return &ecrLogins{api: api, now: time.Now, known: map[string]ecrLogin{}}
}

// login returns that for a region, asked for when there is none. One caller asks at
// a time: the others would ask for the same.
func (l *ecrLogins) login(ctx context.Context, region string) (backend.Credential, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k, ok := l.known[region]; ok && l.now().Before(k.until) {
		return k.credential, nil
	}
	out, err := l.api.GetAuthorizationToken(ctx, &ecr.GetAuthorizationTokenInput{},
		func(o *ecr.Options) { o.Region = region })
	if err != nil {
		return backend.Credential{}, fmt.Errorf("log in to ECR in %s: %w", region, awscall.Classify(err))
	}
	k, err := ecrLoginOf(out)
	if err != nil {
		return backend.Credential{}, fmt.Errorf("log in to ECR in %s: %w", region, err)
	}
	l.known[region] = k
	return k.credential, nil
}

// ecrLoginOf reads "user:password" in base64. Its errors do not quote it.
func ecrLoginOf(out *ecr.GetAuthorizationTokenOutput) (ecrLogin, error) {
	if len(out.AuthorizationData) == 0 {
		return ecrLogin{}, errors.New("ECR answered without a login")
	}
	data := out.AuthorizationData[0]
	text, err := base64.StdEncoding.DecodeString(aws.ToString(data.AuthorizationToken))
	if err != nil {
		return ecrLogin{}, errors.New("ECR's login cannot be decoded")
	}
	user, password, found := strings.Cut(string(text), ":")
	if !found {
		return ecrLogin{}, errors.New("ECR's login is no user and password")
	}
	return ecrLogin{
		credential: backend.Credential{Username: user, Password: password},
		until:      aws.ToTime(data.ExpiresAt).Add(-loginRenewal),
	}, nil
}
