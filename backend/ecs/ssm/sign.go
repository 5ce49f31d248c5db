package ssm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// service is the name of the data channel's service in a signature.
const service = "ssmmessages"

// sign makes the headers with which a stream's URL is asked for. Unverified: that
// the service wants a signature beside the token; the current plugin makes one
// unless the URL has one already, older ones made none.
func sign(
	ctx context.Context, creds aws.CredentialsProvider, region string, stream *url.URL, now time.Time,
) (http.Header, error) {
	if creds == nil || stream.Query().Has("X-Amz-Signature") {
		return http.Header{}, nil
	}
	c, err := creds.Retrieve(ctx)
	if err != nil {
		return nil, fmt.Errorf("get credentials for the session: %w", err)
	}
	u := *stream
	if u.Scheme = "https"; stream.Scheme == "ws" {
		u.Scheme = "http"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, errors.New("the URL of the session is none")
	}
	empty := sha256.Sum256(nil)
	if err := v4.NewSigner().SignHTTP(ctx, c, r, hex.EncodeToString(empty[:]), service, region, now); err != nil {
		return nil, fmt.Errorf("sign the request for the session: %w", err)
	}
	return r.Header, nil
}
