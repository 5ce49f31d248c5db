package ecs

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// supervisedOf is a container whose script a supervisor runs.
func supervisedOf(name, script string) types.ContainerDefinition {
	c := helperOf(name, "/burstlet/bin/burstlet-task")
	c.Command = []string{"supervise", "--", "sh", "-c", script}
	return c
}

func TestSupervisedContainersDoWhatTheirScriptSays(t *testing.T) {
	world(t, Config{Kindness: Kindness{HealthAtOnce: true}}, func(t *testing.T, s *Server) {
		a, b := supervisedOf("a", "sleep 5; exit 4"), supervisedOf("b", "unhealthy 12; healthy; sleep 900")
		b.HealthCheck = &types.HealthCheck{
			Command: []string{"CMD", "/burstlet/bin/burstlet-task", "health"}, Interval: aws.Int32(5), Retries: aws.Int32(1),
		}
		agent := named("agent", "/burstlet-task")
		agent.Command = []string{"agent"}
		arn := run(t, s, definitionOf(a, b, agent), nil)
		wait(6 * time.Second)
		task := describe(t, client(s), arn)
		if c := container(t, task, "a"); aws.ToInt32(c.ExitCode) != 4 || aws.ToString(c.LastStatus) != "STOPPED" {
			t.Fatalf("a is %s with %d", aws.ToString(c.LastStatus), aws.ToInt32(c.ExitCode))
		}
		if c := container(t, task, "b"); c.HealthStatus != types.HealthStatusUnhealthy {
			t.Fatalf("b is %s", c.HealthStatus)
		}
		wait(10 * time.Second)
		task = describe(t, client(s), arn)
		if c := container(t, task, "b"); c.HealthStatus != types.HealthStatusHealthy {
			t.Fatalf("b is %s", c.HealthStatus)
		}
		if aws.ToString(task.LastStatus) != "RUNNING" {
			t.Fatalf("an agent that waits for nobody ended its task: %s", aws.ToString(task.LastStatus))
		}
	})
}

func TestAgentEndsWithThoseItWaitsFor(t *testing.T) {
	world(t, Config{}, func(t *testing.T, s *Server) {
		agent := named("agent", "/burstlet/bin/burstlet-task")
		agent.Command = []string{"agent"}
		agent.Environment = []types.KeyValuePair{{Name: aws.String("BURSTLET_WAIT"), Value: aws.String("a,b")}}
		arn := run(t, s, definitionOf(supervisedOf("a", "sleep 5"), supervisedOf("b", "sleep 9; exit 3"), agent), nil)
		wait(8 * time.Second)
		if task := describe(t, client(s), arn); aws.ToString(task.LastStatus) != "RUNNING" {
			t.Fatalf("%s before b ended", aws.ToString(task.LastStatus))
		}
		wait(2 * time.Second)
		if task := describe(t, client(s), arn); aws.ToString(task.LastStatus) != "STOPPED" ||
			*container(t, task, "agent").ExitCode != 0 {
			t.Fatalf("%s after b ended", aws.ToString(task.LastStatus))
		}
	})
}
