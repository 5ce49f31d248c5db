package ecs

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
)

// What a task needs before it pulls, and what is said when that is not there.
func TestResourceInitialization(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(*testing.T, *Server, *types.ContainerDefinition)
		want    string // in stoppedReason; "" if it runs
	}{
		"secret": {func(t *testing.T, s *Server, c *types.ContainerDefinition) {
			c.Secrets = []types.Secret{{Name: aws.String("S"), ValueFrom: aws.String(create(t, s, "a", `{"k":"v"}`) + ":k::")}}
		}, ""},
		"no such secret": {func(_ *testing.T, s *Server, c *types.ContainerDefinition) {
			c.Secrets = []types.Secret{{
				Name: aws.String("S"), ValueFrom: aws.String(s.arnOf("secretsmanager", "secret:a-AbCdEf")),
			}}
		}, "unable to retrieve secret from asm: service call has been retried 1 time(s): failed to fetch secret " +
			"arn:aws:secretsmanager:us-east-1:123456789012:secret:a-AbCdEf from secrets manager: ResourceNotFoundException"},
		"no such key": {func(t *testing.T, s *Server, c *types.ContainerDefinition) {
			c.Secrets = []types.Secret{{Name: aws.String("S"), ValueFrom: aws.String(create(t, s, "a", `{"k":"v"}`) + ":j::")}}
		}, "did not contain json key j"},
		"not JSON": {func(t *testing.T, s *Server, c *types.ContainerDefinition) {
			c.Secrets = []types.Secret{{Name: aws.String("S"), ValueFrom: aws.String(create(t, s, "a", `v`) + ":j::")}}
		}, "it is not JSON"},
		"role may not": {func(t *testing.T, s *Server, c *types.ContainerDefinition) {
			c.Secrets = []types.Secret{{Name: aws.String("S"), ValueFrom: aws.String(create(t, s, "a", `v`))}}
			s.Deny(Denial{Principal: ExecutionRole, Action: "secretsmanager:*"})
		}, "is not authorized to perform: secretsmanager:GetSecretValue"},
		"parameter": {func(_ *testing.T, _ *Server, c *types.ContainerDefinition) {
			c.Secrets = []types.Secret{{Name: aws.String("S"), ValueFrom: aws.String("parameter")}}
		}, "from ssm"},
		"login": {func(t *testing.T, s *Server, c *types.ContainerDefinition) {
			c.RepositoryCredentials = &types.RepositoryCredentials{CredentialsParameter: aws.String(create(
				t, s, "a", `{"username":"u","password":"p"}`,
			))}
		}, ""},
		"login without a password": {func(t *testing.T, s *Server, c *types.ContainerDefinition) {
			c.RepositoryCredentials = &types.RepositoryCredentials{CredentialsParameter: aws.String(create(
				t, s, "a", `{"username":"u"}`,
			))}
		}, "no username and password"},
		"log group": {
			func(_ *testing.T, _ *Server, c *types.ContainerDefinition) { c.LogConfiguration = logTo("there") }, "",
		},
		"no log group": {
			func(_ *testing.T, _ *Server, c *types.ContainerDefinition) { c.LogConfiguration = logTo("g") },
			"The specified log group does not exist",
		},
		"log group made": {func(_ *testing.T, _ *Server, c *types.ContainerDefinition) {
			c.LogConfiguration = logTo("g")
			c.LogConfiguration.Options["awslogs-create-group"] = "true"
		}, ""},
		"role may not log": {func(_ *testing.T, s *Server, c *types.ContainerDefinition) {
			c.LogConfiguration = logTo("there")
			s.Deny(Denial{Principal: ExecutionRole, Action: "logs:CreateLogStream"})
		}, "logs:CreateLogStream"},
	} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, Config{Delays: slow, LogGroups: []string{"there"}}, func(t *testing.T, s *Server) {
				c := app("sleep", "600")
				tc.prepare(t, s, &c)
				arn := run(t, s, withRole(c), nil)
				wait(time.Minute)
				task := describe(t, client(s), arn)
				reason := aws.ToString(task.StoppedReason)
				if tc.want == "" {
					if *task.LastStatus != "RUNNING" {
						t.Fatalf("%s: %s", *task.LastStatus, reason)
					}
					return
				}
				if !strings.HasPrefix(reason, "ResourceInitializationError: ") || !strings.Contains(reason, tc.want) ||
					task.StopCode != types.TaskStopCodeTaskFailedToStart || task.Containers[0].ExitCode != nil ||
					task.PullStartedAt != nil {
					t.Fatalf("%s: %s", task.StopCode, reason)
				}
			})
		})
	}
}

// What counts is what is there when the interface is attached.
func TestSecretGoneMeanwhile(t *testing.T) {
	bothWays(t, Config{Delays: slow}, func(t *testing.T, s *Server) {
		c := app("sleep", "600")
		c.Secrets = []types.Secret{{Name: aws.String("S"), ValueFrom: aws.String(create(t, s, "a", "v"))}}
		early := run(t, s, withRole(c), nil)
		wait(11 * time.Second)
		late := run(t, s, withRole(c), nil)
		wait(time.Second)
		if _, err := secretsOf(s).DeleteSecret(
			t.Context(), &secretsmanager.DeleteSecretInput{SecretId: aws.String("a")},
		); err != nil {
			t.Fatal(err)
		}
		wait(time.Minute)
		if st := *describe(t, client(s), early).LastStatus; st != "RUNNING" {
			t.Fatalf("the one that had it: %s", st)
		}
		if st := *describe(t, client(s), late).LastStatus; st != "STOPPED" {
			t.Fatalf("the one that had not: %s", st)
		}
	})
}

func TestHelperContainers(t *testing.T) {
	world(t, Config{}, func(t *testing.T, s *Server) {
		create(t, s, "payload", "x")
		init := helperOf("init", "/burstlet-task", "materialize")
		a, b := after(helperOf("a", "sleep", "5"), "init", "SUCCESS"), after(
			helperOf("b", "sh", "-c", "sleep 9; exit 3"), "init", "SUCCESS",
		)
		anchor := named("anchor", "/burstlet-task")
		anchor.Command = []string{"anchor"}
		anchor.Environment = []types.KeyValuePair{{Name: aws.String("BURSTLET_WAIT"), Value: aws.String("a,b")}}
		payload := func(name string) func(*sdk.RunTaskInput) {
			return func(r *sdk.RunTaskInput) {
				r.Overrides = &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{
					{
						Name: aws.String("init"), Environment: []types.KeyValuePair{{Name: aws.String("BURSTLET_PAYLOAD"), Value: &name}},
					},
				}}
			}
		}
		good := run(t, s, definitionOf(init, a, b, anchor), payload("payload"))
		bad := run(t, s, definitionOf(init, a, b, anchor), payload("nothing"))
		wait(6 * time.Second)
		if task := describe(t, client(s), good); *task.LastStatus != "RUNNING" || *container(t, task, "a").ExitCode != 0 {
			t.Fatalf("when a has ended: %v", task)
		}
		wait(3 * time.Second)
		if task := describe(t, client(s), good); *task.LastStatus != "STOPPED" || *container(t, task, "b").ExitCode != 3 ||
			*container(t, task, "anchor").ExitCode != 0 {
			t.Fatalf("when both have: %v", task)
		}
		if task := describe(t, client(s), bad); *task.LastStatus != "STOPPED" || *container(t, task, "init").ExitCode != 1 ||
			*container(t, task, "a").ExitCode != 143 {
			t.Fatalf("without the payload: %v", task)
		}
	})
}

// A log group that is made before the interface is attached is in time, and has
// the stream.
func TestLogGroupMadeMeanwhile(t *testing.T) {
	bothWays(t, Config{Delays: slow}, func(t *testing.T, s *Server) {
		arn, stream := logged(t, s, "echo x; sleep 60")
		wait(5 * time.Second)
		if got := post(t, s, "logs", "CreateLogGroup", `{"logGroupName":"g"}`); got != "" {
			t.Fatal(got)
		}
		wait(20 * time.Second)
		if st := *describe(t, client(s), arn).LastStatus; st != "RUNNING" || len(s.Streams("g")) != 1 ||
			s.Streams("g")[0] != stream {
			t.Fatalf("%s, %v", st, s.Streams("g"))
		}
	})
}
