package taskdef

import (
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
	"github.com/burstlet/burstlet/backend/ecs/identity"
)

// Log drivers of Fargate (ECS API, LogConfiguration); awsfirelens, which needs a
// container of its own, is none of ours.
const (
	driverAWSLogs = ecsconfig.DriverAWSLogs
	driverSplunk  = "splunk"
	driverNone    = "none"
)

func setLogDriver(s *settings, value string) error {
	switch value {
	case driverAWSLogs, driverSplunk:
		if s.log.driver != value {
			s.log.options = nil // the node's are another driver's
		}
		s.log.driver = value
	case driverNone:
		s.log = logSettings{}
	default:
		return fmt.Errorf("must be %s, %s or %s, not %q", driverAWSLogs, driverSplunk, driverNone, value)
	}
	return nil
}

// logging is where the output of a container goes. As on a node, a slow log does
// not block the container unless the options say mode blocking.
func logging(cfg Config, s logSettings) *types.LogConfiguration {
	if s.driver == "" {
		return nil
	}
	out := &types.LogConfiguration{LogDriver: types.LogDriver(s.driver), Options: map[string]string{}}
	if s.driver == driverAWSLogs {
		out.Options = map[string]string{"mode": "non-blocking", "max-buffer-size": "25m"}
		if s.options["mode"] == "blocking" {
			delete(out.Options, "max-buffer-size")
		}
	}
	maps.Copy(out.Options, s.options)
	if s.driver == driverAWSLogs {
		maps.Copy(out.Options, map[string]string{
			"awslogs-group": cfg.LogGroup, "awslogs-region": cfg.Region, "awslogs-stream-prefix": identity.LogPrefix,
		})
	}
	for _, name := range slices.Sorted(maps.Keys(s.secretOptions)) {
		out.SecretOptions = append(out.SecretOptions,
			types.Secret{Name: aws.String(name), ValueFrom: aws.String(s.secretOptions[name])})
	}
	return out
}
