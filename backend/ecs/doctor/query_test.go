package doctor

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/smithy-go"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/clients"
)

// answers is an HTTP client that says one thing.
type answers struct {
	status int
	body   string
	err    error
	asked  []string
}

func (a *answers) Do(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	a.asked = append(a.asked, r.URL.Host+" "+string(body))
	if a.err != nil {
		return nil, a.err
	}
	return &http.Response{StatusCode: a.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

func asking(a *answers) querier {
	return querier{http: a, creds: credentials.NewStaticCredentialsProvider("key", "hidden", ""), region: "eu-west-1"}
}

func TestWhatServicesAnswerIsTold(t *testing.T) {
	const page = "<html><head><title>Blocked</title></head></html>"
	type reply struct {
		Name string `xml:"Name" json:"Name"`
	}
	for name, tc := range map[string]struct {
		answers answers
		json    bool
		code    string
		want    string // of the error; empty: the name is "n"
	}{
		"an answer":         {answers: answers{status: 200, body: "<R><Name>n</Name></R>"}},
		"an answer of JSON": {answers: answers{status: 200, body: `{"Name":"n"}`}, json: true},
		"an error of STS": {answers: answers{
			status: 403,
			body:   "<E><Error><Code>C</Code><Message>m</Message></Error></E>",
		}, code: "C", want: "api error C: m"},
		"an error of EC2": {
			answers: answers{
				status: 400,
				body:   "<R><Errors><Error><Code>C</Code><Message>m</Message></Error></Errors></R>",
			}, code: "C",
			want: "api error C: m",
		},
		"an error of JSON": {
			answers: answers{status: 400, body: `{"__type":"com.amazonaws#C","message":"m"}`},
			json:    true, code: "C", want: "api error C: m",
		},
		"a bare type": {
			answers: answers{status: 400, body: `{"__type":"C","Message":"m"}`}, json: true, code: "C",
			want: "api error C: m",
		},
		"no XML":         {answers: answers{status: 502, body: "Bad Gateway"}, want: "s:A: HTTP status 502"},
		"no JSON":        {answers: answers{status: 502, body: page}, json: true, want: "A: HTTP status 502"},
		"a proxy's page": {answers: answers{status: 403, body: page}, want: "s:A: HTTP status 403"},
		"a proxy's JSON": {
			answers: answers{status: 403, body: `{"error":"blocked"}`}, json: true,
			want: "A: HTTP status 403",
		},
		"cut off": {
			answers: answers{status: 200, body: "<R><Name>n"},
			want:    "s:A: read the answer: XML syntax error",
		},
		"JSON that is cut off": {
			answers: answers{status: 200, body: `{"Name":`}, json: true, want: "A: read the answer: unexpected end of JSON",
		},
		"no route": {answers: answers{err: errors.New("no route to host")}, want: "ask s: no route to host"},
	} {
		var out reply
		var err error
		if q := asking(&tc.answers); tc.json {
			err = q.json(t.Context(), "s", "A", map[string]string{}, &out)
		} else {
			_, err = q.query(t.Context(), "s", "v", "A", url.Values{}, &out)
		}
		if tc.want == "" {
			if err != nil || out.Name != "n" {
				t.Errorf("%s: %+v, %v", name, out, err)
			}
			continue
		}
		var api smithy.APIError
		if err == nil || !strings.Contains(err.Error(), tc.want) || errors.As(err, &api) != (tc.code != "") {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
		if tc.code != "" && api.ErrorCode() != tc.code {
			t.Errorf("%s: %s", name, api.ErrorCode())
		}
	}
}

func TestNothingIsAskedWithoutCredentials(t *testing.T) {
	a := &answers{status: 200}
	q := asking(a)
	q.creds = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{}, errors.New("no role")
	})
	if err := q.json(t.Context(), "s", "A", nil, nil); err == nil || err.Error() != "find AWS credentials: no role" ||
		len(a.asked) > 0 {
		t.Errorf("%v, asked %v", err, a.asked)
	}
	for name, creds := range map[string]aws.CredentialsProvider{"none": nil, "no role": q.creds} {
		found := Diagnose(t.Context(), Config{}, clients.Clients{Credentials: creds, HTTP: a})
		if len(found) != 1 || found[0].OK || found[0].Warn || found[0].Detail != name || len(a.asked) > 0 {
			t.Errorf("%s: %+v, asked %v", name, found, a.asked)
		}
	}
}

// Whoever answers in the place of STS, a proxy's page for one, names no caller.
func TestWhoTheCallerIs(t *testing.T) {
	const reply = "<R><GetCallerIdentityResult><Arn>%</Arn><Account>1</Account></GetCallerIdentityResult></R>"
	for name, tc := range map[string]struct {
		answers      answers
		region, name string
		goesOn       bool
		want         backend.Finding // but for what it is about
	}{
		"a role": {
			answers: answers{status: 200, body: strings.Replace(reply, "%", "arn:aws:iam::1:role/r", 1)}, goesOn: true,
			region: "eu-west-1", name: "arn:aws:ecs:eu-west-1:1:cluster/c", want: backend.Good("", "arn:aws:iam::1:role/r"),
		},
		"the root of an account": {
			answers: answers{status: 200, body: strings.Replace(reply, "%", "arn:aws-cn:iam::1:root", 1)}, goesOn: true,
			region: "cn-north-1", name: "arn:aws-cn:ecs:cn-north-1:1:cluster/c",
			want: backend.Doubtful("", "arn:aws-cn:iam::1:root, who may do everything", "make a role"),
		},
		"an old key": {
			answers: answers{status: 403, body: "<E><Error><Code>ExpiredToken</Code><Message>m</Message></Error></E>"},
			want:    backend.Bad("", "ExpiredToken: m", "the credentials have expired"),
		},
		"a proxy's refusal": {
			answers: answers{status: 407, body: "<html/>"}, region: "eu-west-1",
			want: backend.Bad("", "sts:GetCallerIdentity: HTTP status 407",
				"this machine must reach https://sts.eu-west-1.amazonaws.com"),
		},
		"a proxy's page": {
			answers: answers{status: 200, body: "<html><body>Log in</body></html>"}, region: "eu-west-1",
			want: backend.Bad("", "the answer names nobody", "this machine must reach https://sts.eu-west-1.amazonaws.com"),
		},
	} {
		d := &doctor{query: asking(&tc.answers)}
		d.cfg.Region, d.query.region, d.cfg.Cluster = tc.region, tc.region, "c"
		if goesOn := d.whoami(t.Context()); goesOn != tc.goesOn || d.cluster != tc.name || len(d.found) != 1 {
			t.Errorf("%s: %v, %q, %+v", name, goesOn, d.cluster, d.found)
			continue
		}
		f := d.found[0]
		if f.OK != tc.want.OK || f.Warn != tc.want.Warn || f.Detail != tc.want.Detail ||
			!strings.HasPrefix(f.Advice, tc.want.Advice) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
