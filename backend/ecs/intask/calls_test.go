package intask

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// answers is a network in which everything answers the same.
type answers struct {
	status int
	body   string
}

// RoundTrip answers.
func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

// TestWhereAWSIs: the domain of a service is that of the part of AWS that the region is in.
func TestWhereAWSIs(t *testing.T) {
	for region, want := range map[string]string{
		"eu-central-1":   "amazonaws.com",
		"us-gov-west-1":  "amazonaws.com",
		"cn-north-1":     "amazonaws.com.cn",
		"cn-northwest-1": "amazonaws.com.cn",
		"eusc-de-east-1": "amazonaws.eu",
		"":               "amazonaws.com",
	} {
		if got := domainOf(region); got != want {
			t.Errorf("%q: %s, want %s", region, got, want)
		}
	}
}

// TestWhatSecretsManagerSays: only a secret that is gone or holds no text is not asked for
// again; an error holds what AWS says of it, and never a value.
func TestWhatSecretsManagerSays(t *testing.T) {
	const gone = "com.amazonaws.secretsmanager#ResourceNotFoundException"
	for name, tt := range map[string]struct {
		status int
		answer string
		value  string
		err    string
		final  bool
		gone   bool
	}{
		"a value":      {status: 200, answer: `{"SecretString":"s"}`, value: "s"},
		"an empty one": {status: 200, answer: `{"SecretString":""}`},
		"one of bytes": {status: 200, answer: `{"SecretBinary":"c2VjcmV0"}`, err: "it is no text: final", final: true},
		"gone": {
			status: 400, answer: `{"__type":"` + gone + `"}`, err: gone + ": there is no such secret: final",
			final: true, gone: true,
		},
		"denied": {
			status: 400, answer: `{"__type":"AccessDeniedException","Message":"no"}`,
			err: "status 400: AccessDeniedException: no",
		},
		"other letters": {status: 400, answer: `{"__type":"X","message":"no"}`, err: "status 400: X: no"},
		"throttled":     {status: 400, answer: `{"__type":"ThrottlingException"}`, err: "status 400: ThrottlingException: "},
		"broken": {
			status: 500, answer: `{"__type":"InternalServiceError"}`, err: "status 500: InternalServiceError: ",
		},
		"gone, by a proxy": {
			status: 404, answer: `{"__type":"` + gone + `"}`, err: "status 404: " + gone + ": ",
		},
		"a proxy's page": {status: 502, answer: "<html>secret</html>", err: "status 502 without an answer"},
		"nothing":        {status: 200, err: "status 200 without an answer"},
	} {
		got, err := secretIn("n", tt.status, []byte(tt.answer))
		want := ""
		if tt.err != "" {
			want = "get secret n: " + tt.err
		}
		if said := fmt.Sprint(err); got != tt.value || (want == "") != (err == nil) || want != "" && said != want {
			t.Errorf("%s: %q, %v; want %q, %s", name, got, err, tt.value, want)
		}
		if errors.Is(err, errFinal) != tt.final || errors.Is(err, errNoSecret) != tt.gone {
			t.Errorf("%s: final: %v, gone: %v", name, errors.Is(err, errFinal), errors.Is(err, errNoSecret))
		}
	}
}

// TestWhatAnEndpointSays: an answer is what was asked for, or an error without a word of it.
func TestWhatAnEndpointSays(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		err    string
	}{
		"what was asked for": {200, `{"A":1}`, ""},
		"more than that":     {200, `{"A":1,"B":2}`, ""},
		"of another kind":    {200, `{"A":"canary"}`, "the answer is not what was expected"},
		"no JSON":            {200, `canary`, "the answer is not what was expected"},
		"nothing":            {200, ``, "the answer is not what was expected"},
		"cut off":            {200, `{"A":1`, "the answer is not what was expected"},
		"not yet":            {404, `{"A":1}`, "answered with status 404"},
		"broken":             {500, `canary`, "answered with status 500"},
		"no contents":        {204, ``, "answered with status 204"},
	} {
		task := Task{HTTPClient: &http.Client{Transport: answers{tt.status, tt.body}}}
		var got struct{ A int }
		err := task.getJSON(t.Context(), "http://metadata/task", &got)
		if said := fmt.Sprint(err); tt.err == "" && (err != nil || got.A != 1) || tt.err != "" && said != tt.err {
			t.Errorf("%s: %+v, %v; want %s", name, got, err, tt.err)
		}
	}
	if err := (Task{}).getJSON(t.Context(), "://", nil); err == nil {
		t.Error("an address that is none was asked")
	}
}
