package probe

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/burstlet/burstlet/backend/ecs/awscall"
	"github.com/burstlet/burstlet/backend/pause"
)

// logs looks how an essential container's end is shown, and when its lines can be read.
func logs(ctx context.Context, p *prober) ([]Row, error) {
	const longest = 10 * time.Second
	c := p.container("app", true, "echo first; echo; echo last; sleep 30; exit 5")
	logged := p.cfg.LogGroup != "" && p.cfg.ExecutionRoleARN != ""
	if logged {
		c.LogConfiguration = &types.LogConfiguration{LogDriver: types.LogDriverAwslogs, Options: map[string]string{
			"awslogs-group": p.cfg.LogGroup, "awslogs-region": p.cfg.Region, "awslogs-stream-prefix": streamPrefix,
		}}
	}
	arn, err := p.run(ctx, false, p.definition("logs", c))
	if err != nil {
		return nil, err
	}
	if err := p.runs(ctx, arn); err != nil {
		return nil, err
	}
	var rows []Row
	if logged {
		lines, took, err := p.lines(ctx, streamPrefix+"/app/"+arn[strings.LastIndex(arn, "/")+1:])
		if err != nil {
			rows = unknown([]string{"logs.delay", "logs.blankLines"}, err)
		} else {
			blank := "left out"
			if lines > 2 {
				blank = "kept"
			}
			rows = []Row{
				within("logs.delay", "from a line of a log until it can be read", longest, took),
				exact("logs.blankLines", "empty lines of a log", "left out", blank),
			}
		}
	}
	t, err := p.await(ctx, arn, "it stops", begins, isStopped)
	if err != nil {
		return nil, err
	}
	return append([]Row{
		exact(
			"exit.stopCode", "stop code of a task whose essential container exited", "EssentialContainerExited",
			string(t.StopCode),
		),
		exact("exit.code", "exit code of a container that exits with 5", "5", code(container(t, "app"))),
	}, rows...), nil
}

// streamPrefix is below what the policies of deploy/aws allow.
const streamPrefix = "burstlet/try"

// lines waits for the last line of a log, and returns how many there are and how long it
// took by this machine's clock.
func (p *prober) lines(ctx context.Context, stream string) (int, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	in := &cloudwatchlogs.GetLogEventsInput{
		LogGroupName: &p.cfg.LogGroup, LogStreamName: &stream, StartFromHead: aws.Bool(true),
	}
	for {
		out, err := p.clients.Logs.GetLogEvents(ctx, in)
		if err != nil && !awscall.IsCode(err, "ResourceNotFoundException") && ctx.Err() == nil {
			return 0, 0, fmt.Errorf("read the log: %w", awscall.Classify(err))
		}
		if err == nil && len(out.Events) > 0 {
			if last := out.Events[len(out.Events)-1]; aws.ToString(last.Message) == "last" {
				return len(out.Events), time.Since(time.UnixMilli(aws.ToInt64(last.Timestamp))), nil
			}
		}
		if err := pause.For(ctx, poll); err != nil {
			return 0, 0, fmt.Errorf("wait for the log: %w", err)
		}
	}
}
