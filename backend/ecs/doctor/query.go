package doctor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go"

	"github.com/burstlet/burstlet/backend/ecs/clients"
)

// querier asks services of AWS that only [Diagnose] needs, a question each: for them
// no client of the SDK's is linked. Those of STS, IAM and EC2 speak the Query
// protocol (a form, answered in XML), Service Quotas awsJson1.1.
type querier struct {
	http   aws.HTTPClient
	creds  aws.CredentialsProvider
	region string
	// endpoint is a test server's; empty: AWS.
	endpoint string
}

// Versions of the Query APIs.
const (
	versionSTS = "2011-06-15"
	versionIAM = "2010-05-08"
	versionEC2 = "2016-11-15"
)

const (
	queryTimeout  = 10 * time.Second
	maxQueryReply = 1 << 20
)

func newQuerier(cfg Config, c clients.Clients) querier {
	q := querier{http: c.HTTP, creds: c.Credentials, region: cfg.Region, endpoint: cfg.Endpoint}
	if q.http == nil {
		q.http = http.DefaultClient
	}
	return q
}

// partition is the part of AWS that a region is in: for ARNs, and for hosts.
func partition(region string) (name, domain string) {
	switch {
	case strings.HasPrefix(region, "cn-"):
		return "aws-cn", "amazonaws.com.cn"
	case strings.HasPrefix(region, "us-gov-"):
		return "aws-us-gov", "amazonaws.com"
	case strings.HasPrefix(region, "eusc-"):
		return "aws-eusc", "amazonaws.eu"
	default:
		return "aws", "amazonaws.com"
	}
}

// where is a service's address, and the region to sign for. IAM has one for all
// regions of a partition (AWS General Reference, "IAM endpoints").
func (q querier) where(service string) (endpoint, region string) {
	_, domain := partition(q.region)
	host, region := service+"."+q.region+"."+domain, q.region
	if service == "iam" {
		switch {
		case strings.HasPrefix(q.region, "cn-"):
			host, region = "iam.cn-north-1."+domain, "cn-north-1"
		case strings.HasPrefix(q.region, "us-gov-"):
			host, region = "iam.us-gov."+domain, "us-gov-west-1"
		case strings.HasPrefix(q.region, "eusc-"):
			host, region = "iam.eusc-de-east-1."+domain, "eusc-de-east-1"
		default:
			host, region = "iam."+domain, "us-east-1"
		}
	}
	if q.endpoint != "" {
		return q.endpoint, region
	}
	return "https://" + host, region
}

// queryReply is what came back, and when it was sent by the service's clock and ours.
type queryReply struct {
	status        int
	body          []byte
	theirs        time.Time // zero: it has no date
	before, after time.Time
}

// post sends a signed request.
func (q querier) post(ctx context.Context, service, contentType, target, body string) (out queryReply, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	endpoint, region := q.where(service)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint+"/", strings.NewReader(body))
	if err != nil {
		return queryReply{}, fmt.Errorf("ask %s: %w", service, err)
	}
	req.Header.Set("Content-Type", contentType)
	if target != "" {
		req.Header.Set("X-Amz-Target", target)
	}
	creds, err := q.creds.Retrieve(ctx)
	if err != nil {
		return queryReply{}, fmt.Errorf("find AWS credentials: %w", err)
	}
	sum := sha256.Sum256([]byte(body))
	before := time.Now()
	err = v4.NewSigner().SignHTTP(ctx, creds, req, hex.EncodeToString(sum[:]), service, region, before)
	if err != nil {
		return queryReply{}, fmt.Errorf("sign the request to %s: %w", service, err)
	}
	resp, err := q.http.Do(req)
	if err != nil {
		return queryReply{}, fmt.Errorf("ask %s: %w", service, err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	out = queryReply{status: resp.StatusCode, before: before, after: time.Now()}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		out.theirs = date
	}
	if out.body, err = io.ReadAll(io.LimitReader(resp.Body, maxQueryReply)); err != nil {
		return out, fmt.Errorf("read the answer of %s: %w", service, err)
	}
	return out, nil
}

// query calls an action of a Query API and reads its answer into out.
func (q querier) query(
	ctx context.Context, service, version, action string, form url.Values, out any,
) (queryReply, error) {
	form.Set("Action", action)
	form.Set("Version", version)
	reply, err := q.post(ctx, service, "application/x-www-form-urlencoded; charset=utf-8", "", form.Encode())
	if err != nil {
		return reply, err
	}
	if reply.status != http.StatusOK {
		// STS and IAM nest the error in ErrorResponse, EC2 in Response and Errors.
		var failure struct {
			Code    string `xml:"Error>Code"`
			Message string `xml:"Error>Message"`
			EC2Code string `xml:"Errors>Error>Code"`
			EC2Text string `xml:"Errors>Error>Message"`
		}
		// What names no error is none of the service's: a proxy's page may be XML too.
		err := xml.Unmarshal(reply.body, &failure)
		if err != nil || failure.Code+failure.EC2Code == "" {
			return reply, fmt.Errorf("%s:%s: HTTP status %d", service, action, reply.status)
		}
		return reply, &smithy.GenericAPIError{
			Code: failure.Code + failure.EC2Code, Message: failure.Message + failure.EC2Text,
		}
	}
	if err := xml.Unmarshal(reply.body, out); err != nil {
		return reply, fmt.Errorf("%s:%s: read the answer: %w", service, action, err)
	}
	return reply, nil
}

// json calls an action of an awsJson1.1 API.
func (q querier) json(ctx context.Context, service, target string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("%s: %w", target, err)
	}
	reply, err := q.post(ctx, service, "application/x-amz-json-1.1", target, string(body))
	if err != nil {
		return err
	}
	if reply.status != http.StatusOK {
		var failure struct {
			Type    string `json:"__type"`
			Message string `json:"message"`
		}
		if err := json.Unmarshal(reply.body, &failure); err != nil || failure.Type == "" {
			return fmt.Errorf("%s: HTTP status %d", target, reply.status)
		}
		return &smithy.GenericAPIError{
			Code: failure.Type[strings.LastIndex(failure.Type, "#")+1:], Message: failure.Message,
		}
	}
	if err := json.Unmarshal(reply.body, out); err != nil {
		return fmt.Errorf("%s: read the answer: %w", target, err)
	}
	return nil
}
