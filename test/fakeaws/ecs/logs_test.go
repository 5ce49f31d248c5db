package ecs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// logged runs a script with logs to group g and returns the stream's name.
func logged(t *testing.T, s *Server, script string) (arn, stream string) {
	t.Helper()
	c := app("sh", "-c", script)
	c.LogConfiguration = logTo("g")
	arn = run(t, s, withRole(c), nil)
	return arn, "p/app/" + arn[strings.LastIndex(arn, "/")+1:]
}

func texts(events []logtypes.OutputLogEvent) string {
	var out []string
	for _, e := range events {
		out = append(out, *e.Message)
	}
	return strings.Join(out, " ")
}

// reads asks for a stream's events from its beginning, changed as said.
func reads(
	t *testing.T, s *Server, stream string, change func(*cloudwatchlogs.GetLogEventsInput),
) (*cloudwatchlogs.GetLogEventsOutput, error) {
	t.Helper()
	in := &cloudwatchlogs.GetLogEventsInput{
		LogGroupName: aws.String("g"), LogStreamName: &stream, StartFromHead: aws.Bool(true),
	}
	if change != nil {
		change(in)
	}
	return logsOf(s).GetLogEvents(t.Context(), in)
}

// follow reads on after a page and wants these texts.
func follow(
	t *testing.T, s *Server, stream string, page *cloudwatchlogs.GetLogEventsOutput, want string,
) *cloudwatchlogs.GetLogEventsOutput {
	t.Helper()
	out, err := reads(t, s, stream, func(in *cloudwatchlogs.GetLogEventsInput) { in.NextToken = page.NextForwardToken })
	if err != nil || texts(out.Events) != want {
		t.Fatalf("%v, %v, want %s", out, err, want)
	}
	return out
}

// TestIngestion follows a stream while its container writes.
func TestIngestion(t *testing.T) {
	kind := Kindness{LogsAtOnce: true}
	world(t, Config{
		LogGroups: []string{"g"}, Kindness: kind, Delays: Delays{Pull: 2 * time.Second, Ingest: 3 * time.Second},
	}, func(t *testing.T, s *Server) {
		begin := time.Now()
		_, stream := logged(t, s, "echo a 'b  c'; echo lost > /tmp/x; echo err >&2; sleep 5; seq 3; echo end; exit 2")
		if _, err := reads(t, s, stream, nil); code(t, err) != "ResourceNotFoundException" {
			t.Fatalf("before the container started: %v", err)
		}
		wait(2 * time.Second)
		out, err := reads(t, s, stream, nil)
		if err != nil || len(out.Events) != 0 || *out.NextForwardToken != "f/0" {
			t.Fatalf("before its lines can be read: %v, %v", out, err)
		}
		wait(3 * time.Second)
		out = follow(t, s, stream, out, "a b  c err")
		if got := *out.Events[0].Timestamp - begin.UnixMilli(); got != 2000 ||
			*out.Events[0].IngestionTime-*out.Events[0].Timestamp != 3000 {
			t.Fatalf("written after %d ms", got)
		}
		wait(time.Minute)
		rest := follow(t, s, stream, out, "1 2 3 end")
		if same := follow(t, s, stream, rest, ""); *same.NextForwardToken != *rest.NextForwardToken {
			t.Fatalf("at the end: %v", same)
		}
		wait(2 * time.Hour)
		if left, err := reads(t, s, stream, nil); err != nil || len(left.Events) != 6 || len(s.Tasks(false)) != 0 {
			t.Fatalf("when the task is forgotten: %v, %v", left, err)
		}
	})
}

// Lines come in batches, every 5 s from the start of their container on and 1 to 3 s later,
// the last ones too; empty ones do not come.
func TestLinesComeInBatches(t *testing.T) {
	world(t, Config{LogGroups: []string{"g"}}, func(t *testing.T, s *Server) {
		_, stream := logged(t, s, "echo a; echo ''; sleep 6; echo b; sleep 5; echo c; exit 2")
		came := map[string]time.Duration{}
		begun := time.Now()
		for time.Since(begun) < 30*time.Second {
			wait(100 * time.Millisecond)
			out, err := reads(t, s, stream, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range out.Events {
				if _, ok := came[*e.Message]; !ok {
					came[*e.Message] = time.Since(begun)
				}
			}
		}
		if len(came) != 3 {
			t.Fatalf("%v", came)
		}
		for text, flushed := range map[string]time.Duration{
			"a": 5 * time.Second, "b": 10 * time.Second, "c": 15 * time.Second,
		} {
			if late := came[text] - flushed; late < time.Second || late > 3*time.Second+200*time.Millisecond {
				t.Errorf("%s came after %s", text, came[text])
			}
		}
	})
}

// A line that is longer than an event may be comes in several.
func TestLongLinesAreSplit(t *testing.T) {
	driven(t, Config{LogGroups: []string{"g"}}, func(t *testing.T, s *Server, _ *fakeRunner) {
		arn, stream := logged(t, s, "sleep 60")
		wait(time.Second)
		s.mu.Lock()
		task := s.tasks[arn]
		s.mu.Unlock()
		s.logTo(task, 0)(time.Now(), strings.Repeat("x", 600<<10)+"end")
		wait(10 * time.Second)
		out, err := reads(t, s, stream, nil)
		if err != nil || len(out.Events) != 3 || len(*out.Events[0].Message) != 256<<10-26 ||
			!strings.HasSuffix(*out.Events[2].Message, "xend") {
			t.Fatalf("%d events, %v", len(out.Events), err)
		}
	})
}

func TestGetLogEvents(t *testing.T) {
	world(t, Config{LogGroups: []string{"g"}}, func(t *testing.T, s *Server) {
		begin := time.Now().UnixMilli()
		_, stream := logged(t, s, "echo a; sleep 5; seq 3; echo end; exit 2")
		wait(time.Minute)
		for name, tc := range map[string]struct {
			change func(*cloudwatchlogs.GetLogEventsInput)
			want   string
		}{
			"all":       {func(*cloudwatchlogs.GetLogEventsInput) {}, "a 1 2 3 end"},
			"first two": {func(in *cloudwatchlogs.GetLogEventsInput) { in.Limit = aws.Int32(2) }, "a 1"},
			"last two": {
				func(in *cloudwatchlogs.GetLogEventsInput) { in.StartFromHead, in.Limit = nil, aws.Int32(2) }, "3 end",
			},
			"before them": {
				func(in *cloudwatchlogs.GetLogEventsInput) { in.NextToken, in.Limit = aws.String("b/3"), aws.Int32(2) }, "1 2",
			},
			"since": {func(in *cloudwatchlogs.GetLogEventsInput) { in.StartTime = aws.Int64(begin + 5000) }, "1 2 3 end"},
			"until": {func(in *cloudwatchlogs.GetLogEventsInput) { in.EndTime = aws.Int64(begin + 5000) }, "a"},
			"by ARN": {func(in *cloudwatchlogs.GetLogEventsInput) {
				in.LogGroupName, in.LogGroupIdentifier = nil, aws.String("arn:aws:logs:us-east-1:123456789012:log-group:g")
			}, "a 1 2 3 end"},
			"limit": {
				func(in *cloudwatchlogs.GetLogEventsInput) { in.Limit = aws.Int32(10001) }, "InvalidParameterException",
			},
			"token": {
				func(in *cloudwatchlogs.GetLogEventsInput) { in.NextToken = aws.String("x") }, "InvalidParameterException",
			},
			"no group": {
				func(in *cloudwatchlogs.GetLogEventsInput) { in.LogGroupName = aws.String("h") }, "ResourceNotFoundException",
			},
		} {
			out, err := reads(t, s, stream, tc.change)
			got := code(t, err)
			if err == nil {
				got = texts(out.Events)
			}
			if got != tc.want {
				t.Errorf("%s: %s, want %s", name, got, tc.want)
			}
		}
	})
}

func TestLogPages(t *testing.T) {
	world(t, Config{LogGroups: []string{"g"}, Kindness: Kindness{LogsAtOnce: true}}, func(t *testing.T, s *Server) {
		_, stream := logged(t, s, "seq 25000; sleep 60")
		p := cloudwatchlogs.NewGetLogEventsPaginator(logsOf(s), &cloudwatchlogs.GetLogEventsInput{
			LogGroupName: aws.String("g"), LogStreamName: &stream, StartFromHead: aws.Bool(true),
		})
		n, pages := 0, 0
		for p.HasMorePages() && pages < 10 {
			page, err := p.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Events {
				if n++; *e.Message != fmt.Sprint(n) {
					t.Fatalf("line %d is %s", n, *e.Message)
				}
			}
			pages++
		}
		if n != 25000 {
			t.Fatalf("%d lines in %d pages", n, pages)
		}
	})
}

func TestLoopsAndRestarts(t *testing.T) {
	for name, tc := range map[string]struct {
		script  string
		restart bool
		want    string // of the first 130 s, and of the 30 until SIGKILL
	}{
		"loop": {
			"echo begin; i=0; while true; do echo round $i; i=$((i+1)); sleep 50; done", false,
			"begin round 0 round 1 round 2 round 3",
		},
		"restart": {"echo up; sleep 60; echo down; exit 1", true, "up down up down up"},
	} {
		t.Run(name, func(t *testing.T) {
			world(t, Config{LogGroups: []string{"g"}}, func(t *testing.T, s *Server) {
				c := app("sh", "-c", tc.script)
				c.LogConfiguration = logTo("g")
				if tc.restart {
					c.RestartPolicy = &types.ContainerRestartPolicy{Enabled: aws.Bool(true), RestartAttemptPeriod: aws.Int32(60)}
				}
				arn := run(t, s, withRole(c), nil)
				wait(130 * time.Second)
				s.Retire(arn)
				wait(time.Hour)
				stream := s.Streams("g")[0]
				out, err := logsOf(s).GetLogEvents(t.Context(), &cloudwatchlogs.GetLogEventsInput{
					LogGroupName: aws.String("g"), LogStreamName: &stream, StartFromHead: aws.Bool(true),
				})
				if err != nil || texts(out.Events) != tc.want {
					t.Fatalf("got %s (%v), want %s", texts(out.Events), err, tc.want)
				}
			})
		})
	}
}

func TestFilterLogEvents(t *testing.T) {
	world(t, Config{LogGroups: []string{"g"}}, func(t *testing.T, s *Server) {
		logged(t, s, "echo a1; sleep 2; echo a2; sleep 60")
		wait(time.Second)
		logged(t, s, "echo b1; sleep 2; echo b2; sleep 60")
		wait(time.Minute)
		filter := func(change func(*cloudwatchlogs.FilterLogEventsInput)) string {
			in := &cloudwatchlogs.FilterLogEventsInput{LogGroupName: aws.String("g"), Limit: aws.Int32(3)}
			change(in)
			p := cloudwatchlogs.NewFilterLogEventsPaginator(logsOf(s), in)
			var out []string
			for p.HasMorePages() {
				page, err := p.NextPage(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range page.Events {
					out = append(out, *e.Message)
				}
			}
			return strings.Join(out, " ")
		}
		if got := filter(func(*cloudwatchlogs.FilterLogEventsInput) {}); got != "a1 b1 a2 b2" {
			t.Fatal(got)
		}
		if got := filter(
			func(in *cloudwatchlogs.FilterLogEventsInput) { in.FilterPattern = aws.String(`"2"`) },
		); got != "a2 b2" {
			t.Fatal(got)
		}
		if got := filter(
			func(in *cloudwatchlogs.FilterLogEventsInput) { in.LogStreamNames = s.Streams("g")[:1] },
		); len(got) != 5 {
			t.Fatal(got)
		}
	})
}

func TestLogGroups(t *testing.T) {
	world(t, Config{}, func(t *testing.T, s *Server) {
		c := logsOf(s)
		mk := func(name string) error {
			_, err := c.CreateLogGroup(t.Context(), &cloudwatchlogs.CreateLogGroupInput{LogGroupName: &name})
			return err
		}
		if err := mk("g"); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"g": "ResourceAlreadyExistsException", "a b": "InvalidParameterException", "aws/x": "InvalidParameterException",
		} {
			if got := code(t, mk(name)); got != want {
				t.Errorf("%s: %s", name, got)
			}
		}
		keep := func(days int32) error {
			_, err := c.PutRetentionPolicy(
				t.Context(), &cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: aws.String("g"), RetentionInDays: &days},
			)
			return err
		}
		if got := code(t, keep(2)); got != "InvalidParameterException" {
			t.Fatal(got)
		}
		if err := keep(1); err != nil {
			t.Fatal(err)
		}
		groups, err := c.DescribeLogGroups(
			t.Context(), &cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: aws.String("g")},
		)
		if err != nil || len(groups.LogGroups) != 1 || *groups.LogGroups[0].RetentionInDays != 1 {
			t.Fatalf("%v, %v", groups, err)
		}
		if _, err := c.DeleteLogGroup(
			t.Context(), &cloudwatchlogs.DeleteLogGroupInput{LogGroupName: aws.String("g")},
		); err != nil {
			t.Fatal(err)
		}
		_, err = c.DeleteLogGroup(t.Context(), &cloudwatchlogs.DeleteLogGroupInput{LogGroupName: aws.String("g")})
		if got := code(t, err); got != "ResourceNotFoundException" {
			t.Fatal(err)
		}
	})
}

func TestLogStreams(t *testing.T) {
	world(t, Config{LogGroups: []string{"g"}}, func(t *testing.T, s *Server) {
		c := logsOf(s)
		_, stream := logged(t, s, "echo x; sleep 1")
		wait(time.Minute)
		streams := func() []logtypes.LogStream {
			out, err := c.DescribeLogStreams(t.Context(), &cloudwatchlogs.DescribeLogStreamsInput{
				LogGroupName: aws.String("g"), LogStreamNamePrefix: aws.String("p/app/"),
			})
			if err != nil {
				t.Fatal(err)
			}
			return out.LogStreams
		}
		if got := streams(); len(got) != 1 || *got[0].LogStreamName != stream || *got[0].LastEventTimestamp == 0 {
			t.Fatalf("%v", got)
		}
		_, err := c.DescribeLogStreams(t.Context(), &cloudwatchlogs.DescribeLogStreamsInput{
			LogGroupName: aws.String("g"), LogStreamNamePrefix: aws.String("p"), OrderBy: logtypes.OrderByLastEventTime,
		})
		if got := code(t, err); got != "InvalidParameterException" {
			t.Fatal(err)
		}
		if _, err := c.PutRetentionPolicy(
			t.Context(), &cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: aws.String("g"), RetentionInDays: aws.Int32(1)},
		); err != nil {
			t.Fatal(err)
		}
		if out, err := reads(t, s, stream, nil); err != nil || len(out.Events) != 1 {
			t.Fatalf("within the retention: %v, %v", out, err)
		}
		wait(24 * time.Hour)
		if out, err := reads(t, s, stream, nil); err != nil || len(out.Events) != 0 {
			t.Fatalf("beyond the retention: %v, %v", out, err)
		}
		if _, err := c.DeleteLogStream(
			t.Context(), &cloudwatchlogs.DeleteLogStreamInput{LogGroupName: aws.String("g"), LogStreamName: &stream},
		); err != nil {
			t.Fatal(err)
		}
		if got := streams(); len(got) != 0 {
			t.Fatalf("%v", got)
		}
	})
}
