package logs

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"golang.org/x/time/rate"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
)

// API are the calls to CloudWatch Logs that are used.
type API interface {
	GetLogEvents(context.Context, *cloudwatchlogs.GetLogEventsInput,
		...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.GetLogEventsOutput, error)
}

// logLine is one event of a stream, its time on AWS's clock.
type logLine struct {
	at   time.Time
	text string
}

// logPage is what one call returns, in order.
type logPage struct {
	lines         []logLine
	forward, back string
	// last is true if the stream has nothing after it now.
	last bool
}

// logStreams reads streams of one group, within the rate that AWS documents. Who
// reads the same page at the same time shares one call: all who follow one log
// stand at its end.
type logStreams struct {
	api   API
	group string
	calls *rate.Limiter

	mu    sync.Mutex
	pages map[pageKey]*sharedPage
}

type pageKey struct {
	stream, token string
	since         time.Time
}

// sharedPage is one being read, or one read less than logPoll ago.
type sharedPage struct {
	begun time.Time
	done  chan struct{}
	page  logPage
	err   error
}

// maxLogLines is how many events one call returns (CloudWatch Logs API,
// GetLogEvents: limit).
const maxLogLines = 10000

// logRates are GetLogEvents's a second (CloudWatch Logs quotas), where they are
// not the usual.
var logRates = map[string]rate.Limit{
	"us-west-2": 10, "eu-west-1": 10, "eu-central-1": 10, "ap-northeast-3": 10,
	"ap-southeast-3": 10, "ca-west-1": 10, "il-central-1": 10, "eu-west-3": 30,
}

const usualLogRate rate.Limit = 25

func newLogStreams(api API, region, group string) *logStreams {
	limit, ok := logRates[region]
	if !ok {
		limit = usualLogRate
	}
	return &logStreams{
		api: api, group: group, calls: rate.NewLimiter(limit, int(limit)),
		pages: map[pageKey]*sharedPage{},
	}
}

// forward reads the page after a token, or the first one, since some time. It may
// be one that another has read, but not before asOf.
func (s *logStreams) forward(ctx context.Context, stream, token string, since, asOf time.Time) (logPage, error) {
	k := pageKey{stream, token, since}
	for {
		p, mine := s.share(k, asOf)
		if mine {
			return s.fill(ctx, k, p)
		}
		select {
		case <-p.done:
			if p.err == nil || ctx.Err() != nil {
				return p.page, p.err
			}
			// Perhaps it was only the other's context that ended: try it oneself.
		case <-ctx.Done():
			return logPage{}, ctx.Err()
		}
	}
}

// share returns a page that another reads or has just read, else one to fill.
func (s *logStreams) share(k pageKey, asOf time.Time) (p *sharedPage, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for other, p := range s.pages {
		if now.Sub(p.begun) >= logPoll {
			delete(s.pages, other)
		}
	}
	if p := s.pages[k]; p != nil && !p.begun.Before(asOf) {
		return p, false
	}
	p = &sharedPage{begun: now, done: make(chan struct{})}
	s.pages[k] = p
	return p, true
}

func (s *logStreams) fill(ctx context.Context, k pageKey, p *sharedPage) (logPage, error) {
	in := &cloudwatchlogs.GetLogEventsInput{StartFromHead: aws.Bool(true)}
	if k.token != "" {
		in.NextToken = &k.token
	}
	if !k.since.IsZero() {
		in.StartTime = aws.Int64(k.since.UnixMilli())
	}
	page, err := s.get(ctx, k.stream, in)
	s.mu.Lock()
	defer s.mu.Unlock()
	p.page, p.err = page, err
	if err != nil && s.pages[k] == p {
		delete(s.pages, k)
	}
	close(p.done)
	return page, err
}

// last reads the newest n lines, or as many as fit in a page.
func (s *logStreams) last(ctx context.Context, stream string, n int64) (logPage, error) {
	return s.get(ctx, stream, &cloudwatchlogs.GetLogEventsInput{
		StartFromHead: aws.Bool(false), Limit: aws.Int32(int32(min(max(n, 1), maxLogLines))),
	})
}

// backward reads the last page before a token that is not empty. One without lines is where
// the stream begins only if its token stays what it was (GetLogEvents: nextBackwardToken).
func (s *logStreams) backward(ctx context.Context, stream, token string) (logPage, error) {
	for token != "" {
		in := &cloudwatchlogs.GetLogEventsInput{StartFromHead: aws.Bool(false), NextToken: &token}
		page, err := s.get(ctx, stream, in)
		if err != nil || len(page.lines) > 0 || page.back == token {
			return page, err
		}
		token = page.back
	}
	return logPage{}, nil
}

func (s *logStreams) get(ctx context.Context, stream string, in *cloudwatchlogs.GetLogEventsInput) (logPage, error) {
	if err := awscall.Wait(ctx, s.calls); err != nil {
		return logPage{}, err
	}
	in.LogGroupName, in.LogStreamName = &s.group, &stream
	out, err := s.api.GetLogEvents(ctx, in)
	if err != nil {
		if awscall.IsCode(err, "ResourceNotFoundException") {
			return s.missing(in, err)
		}
		return logPage{}, fmt.Errorf("get log events of %s: %w", stream, classifyLogs(err))
	}
	page := logPage{forward: aws.ToString(out.NextForwardToken), back: aws.ToString(out.NextBackwardToken)}
	for _, e := range out.Events {
		page.lines = append(page.lines, logLine{
			at:   time.UnixMilli(aws.ToInt64(e.Timestamp)),
			text: aws.ToString(e.Message),
		})
	}
	// The end is where the token stays what it was (GetLogEvents: nextForwardToken).
	// A page may be empty before it.
	page.last = page.forward == aws.ToString(in.NextToken) && page.forward != ""
	return page, nil
}

// missing is the empty page of a stream that is not there yet, because nothing was
// written. A group that is missing is an error.
func (s *logStreams) missing(in *cloudwatchlogs.GetLogEventsInput, err error) (logPage, error) {
	if strings.Contains(strings.ToLower(err.Error()), "log group") {
		return logPage{}, backend.Errorf(backend.ErrNotFound,
			"log group %s is not there: create it, or correct backend.ecs.logGroup", s.group)
	}
	return logPage{forward: aws.ToString(in.NextToken), last: true}, nil
}

// classifyLogs gives errors of CloudWatch Logs their class.
func classifyLogs(err error) error {
	if awscall.IsCode(err, "InvalidParameterException") {
		return err // never the pod's fault
	}
	if awscall.IsCode(err, "ServiceUnavailableException") {
		return backend.Classed(backend.ErrUnavailable, err)
	}
	return awscall.Classify(err)
}
