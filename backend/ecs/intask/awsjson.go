package intask

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// service is an operation of a service that speaks one of AWS's JSON protocols
// (https://smithy.io/2.0/aws/protocols/aws-json-1_1-protocol.html).
type service struct {
	// name is that of its endpoint and its signatures, version the protocol's.
	name, version string
	target        string
}

// callService makes a signed request with the task role's credentials.
func (t Task) callService(
	ctx context.Context, s service, input map[string]string,
) (answer []byte, status int, err error) {
	creds, err := t.credentials(ctx)
	if err != nil {
		return nil, 0, err
	}
	region := t.Env(envRegion)
	endpoint := or(t.Env(EnvEndpoint), "https://"+s.name+"."+region+"."+domainOf(region))
	body, err := json.Marshal(input)
	if err != nil {
		return nil, 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint+"/", bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Content-Type", "application/x-amz-json-"+s.version)
	req.Header.Set("X-Amz-Target", s.target)
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(
		ctx, creds, req, hex.EncodeToString(sum[:]), s.name, region, time.Now(),
	); err != nil {
		return nil, 0, fmt.Errorf("sign: %w", err)
	}
	return t.call(req, maxAnswer)
}
