package logs

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/smithy-go"
)

// paged is a stream whose pages the test chose, as CloudWatch may choose them: some are
// empty, and the last is the one whose token stays (GetLogEvents: nextForwardToken).
type paged struct {
	mu     sync.Mutex
	pages  [][]string
	calls  []string
	errors []error // of the next calls; nil: none
	// hold, if set, is waited for by each call.
	hold chan struct{}
}

var written = time.Unix(1_000_000, 0)

func (p *paged) GetLogEvents(ctx context.Context, in *cloudwatchlogs.GetLogEventsInput,
	_ ...func(*cloudwatchlogs.Options),
) (*cloudwatchlogs.GetLogEventsOutput, error) {
	p.mu.Lock()
	p.calls = append(p.calls, aws.ToString(in.NextToken))
	var err error
	if len(p.errors) > 0 {
		err, p.errors = p.errors[0], p.errors[1:]
	}
	hold := p.hold
	p.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.page(in), nil
}

// page is between two tokens: the boundaries of pages, counted.
func (p *paged) page(in *cloudwatchlogs.GetLogEventsInput) *cloudwatchlogs.GetLogEventsOutput {
	way, at, _ := strings.Cut(aws.ToString(in.NextToken), "/")
	n, _ := strconv.Atoi(at)
	from, to := n, min(n+1, len(p.pages))
	if way == "b" || way == "" && !aws.ToBool(in.StartFromHead) {
		if way == "" {
			n = len(p.pages)
		}
		from, to = max(n-1, 0), n
	}
	out := &cloudwatchlogs.GetLogEventsOutput{
		NextForwardToken: aws.String("f/" + strconv.Itoa(to)), NextBackwardToken: aws.String("b/" + strconv.Itoa(from)),
	}
	for _, page := range p.pages[from:to] {
		for _, line := range page {
			at := written.UnixMilli()
			if number, err := strconv.Atoi(line); err == nil { // lines that are numbers tell their second
				at += int64(number) * 1000
			}
			out.Events = append(out.Events, types.OutputLogEvent{Timestamp: &at, Message: aws.String(line)})
		}
	}
	if limit := int(aws.ToInt32(in.Limit)); limit > 0 && len(out.Events) > limit {
		out.Events = out.Events[len(out.Events)-limit:]
	}
	return out
}

func awsError(code, message string) error {
	return &smithy.GenericAPIError{Code: code, Message: message}
}

// timed notes when it was called, in seconds since it began.
type timed struct {
	paged
	begun time.Time
	at    []int
}

func (p *timed) GetLogEvents(ctx context.Context, in *cloudwatchlogs.GetLogEventsInput,
	options ...func(*cloudwatchlogs.Options),
) (*cloudwatchlogs.GetLogEventsOutput, error) {
	p.at = append(p.at, int(time.Since(p.begun).Seconds()))
	return p.paged.GetLogEvents(ctx, in, options...)
}
