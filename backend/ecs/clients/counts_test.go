package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend"
)

// scripted is a network whose answers come in turn: a status with the code of its error, or an
// error; the last one stays.
type scripted struct {
	answers []string
	asked   int
	cancel  context.CancelFunc
}

// RoundTrip answers.
func (s *scripted) RoundTrip(*http.Request) (*http.Response, error) {
	text := s.answers[min(s.asked, len(s.answers)-1)]
	s.asked++
	if text == "cancel" {
		s.cancel()
		return nil, context.Canceled
	}
	var status int
	var code string
	if n, _ := fmt.Sscan(text, &status, &code); n == 0 {
		return nil, errors.New(text)
	}
	body := "{}"
	if code != "" {
		body = fmt.Sprintf(`{"__type":%q,"message":"m"}`, code)
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/x-amz-json-1.1"}},
		Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

// TestEachRequestIsCounted: every retry for itself, by how it ended.
func TestEachRequestIsCounted(t *testing.T) {
	for name, tt := range map[string]struct {
		answers []string
		want    map[string]uint64
		fails   bool
	}{
		"well": {[]string{"200"}, map[string]uint64{"ok": 1}, false},
		"well at the second": {
			[]string{"500 ServerException", "200"}, map[string]uint64{"Unavailable": 1, "ok": 1}, false,
		},
		"throttled, then well": {
			[]string{"400 ThrottlingException", "200"}, map[string]uint64{"Throttled": 1, "ok": 1}, false,
		},
		"never":                  {[]string{"500 ServerException"}, map[string]uint64{"Unavailable": 3}, true},
		"denied is not repeated": {[]string{"400 AccessDeniedException"}, map[string]uint64{"Denied": 1}, true},
		"given up":               {[]string{"cancel"}, map[string]uint64{"canceled": 1}, true},
		"given up at the second": {
			[]string{"500 ServerException", "cancel"}, map[string]uint64{"Unavailable": 1, "canceled": 1}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c, err := New(ctx, Config{
				Region: "eu-west-1", AccessKeyID: "k", SecretAccessKey: "s",
				HTTPClient: &http.Client{Transport: &scripted{answers: tt.answers, cancel: cancel}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.ECS.ListClusters(ctx, &awsecs.ListClustersInput{}, quickly); (err != nil) != tt.fails {
				t.Errorf("%v", err)
			}
			got := map[string]uint64{}
			for _, f := range c.Calls() {
				if f.Service != "ECS" || f.Call != "ListClusters" {
					t.Errorf("%+v", f)
				}
				got[f.Outcome] = f.Count
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// quickly has calls repeated at once.
func quickly(o *awsecs.Options) { o.Retryer = atOnce{o.Retryer} }

type atOnce struct{ aws.Retryer }

// RetryDelay is none.
func (atOnce) RetryDelay(int, error) (time.Duration, error) { return 0, nil }

// TestCountsAreInASteadyOrder: by service, call and outcome.
func TestCountsAreInASteadyOrder(t *testing.T) {
	c := newRequestCounts()
	for _, f := range []backend.CallFacts{
		{Service: "SQS", Call: "B", Outcome: "ok"},
		{Service: "ECS", Call: "B", Outcome: "ok"},
		{Service: "ECS", Call: "A", Outcome: "ok"},
		{Service: "ECS", Call: "A", Outcome: "Denied"},
	} {
		c.of[f] += 2
	}
	var got []string
	for _, f := range c.facts() {
		got = append(got, fmt.Sprint(f.Service, " ", f.Call, " ", f.Outcome, " ", f.Count))
	}
	want := []string{"ECS A Denied 2", "ECS A ok 2", "ECS B ok 2", "SQS B ok 2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if none := newRequestCounts().facts(); len(none) != 0 {
		t.Errorf("before any: %v", none)
	}
}
