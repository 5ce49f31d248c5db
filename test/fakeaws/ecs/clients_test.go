package ecs

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	sdk "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	smtypes "github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

var keys = credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "not-a-secret", "")

func secretsOf(s *Server) *secretsmanager.Client {
	return secretsmanager.New(secretsmanager.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(Endpoint), HTTPClient: s.Client(), Retryer: aws.NopRetryer{},
		Credentials: keys,
	})
}

func logsOf(s *Server) *cloudwatchlogs.Client {
	return cloudwatchlogs.New(cloudwatchlogs.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(Endpoint), HTTPClient: s.Client(), Retryer: aws.NopRetryer{},
		Credentials: keys,
	})
}

func queueOf(s *Server) *sqs.Client {
	return sqs.New(sqs.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(Endpoint), HTTPClient: s.Client(), Retryer: aws.NopRetryer{},
		Credentials: keys,
	})
}

const testRole = "arn:aws:iam::123456789012:role/execution"

// withRole is definitionOf with both roles.
func withRole(cs ...types.ContainerDefinition) *sdk.RegisterTaskDefinitionInput {
	d := definitionOf(cs...)
	d.ExecutionRoleArn, d.TaskRoleArn = aws.String(testRole), aws.String(testRole)
	return d
}

// run registers a definition and runs one task of it, with another token each time.
func run(t *testing.T, s *Server, d *sdk.RegisterTaskDefinitionInput, change func(*sdk.RunTaskInput)) string {
	t.Helper()
	c := client(s)
	if _, err := c.RegisterTaskDefinition(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	r := runOf()
	r.ClientToken = aws.String("t" + s.arn("")[:3] + string(rune('a'+len(s.Tasks(false)))))
	if change != nil {
		change(r)
	}
	out, err := c.RunTask(t.Context(), r)
	if err != nil || len(out.Tasks) != 1 {
		t.Fatalf("%v, %+v", err, out)
	}
	return *out.Tasks[0].TaskArn
}

// world runs f in virtual time with a server.
func world(t *testing.T, cfg Config, f func(*testing.T, *Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, New(cfg)) })
}

// named is a container with a name of its own.
func named(name string, words ...string) types.ContainerDefinition {
	c := app(words...)
	c.Name = aws.String(name)
	return c
}

// helperOf is a container that need not be there.
func helperOf(name string, words ...string) types.ContainerDefinition {
	c := named(name, words...)
	c.Essential = aws.Bool(false)
	return c
}

func after(c types.ContainerDefinition, name string, cond types.ContainerCondition) types.ContainerDefinition {
	c.DependsOn = append(c.DependsOn, types.ContainerDependency{ContainerName: aws.String(name), Condition: cond})
	return c
}

func container(t *testing.T, task types.Task, name string) types.Container {
	t.Helper()
	for _, c := range task.Containers {
		if *c.Name == name {
			return c
		}
	}
	t.Fatalf("no container %s", name)
	return types.Container{}
}

const token32 = "0123456789abcdef0123456789abcdef"

func create(t *testing.T, s *Server, name, text string, tags ...string) string {
	t.Helper()
	in := &secretsmanager.CreateSecretInput{Name: &name, SecretString: &text, ClientRequestToken: aws.String(token32)}
	for i := 0; i+1 < len(tags); i += 2 {
		in.Tags = append(in.Tags, smtypes.Tag{Key: &tags[i], Value: &tags[i+1]})
	}
	out, err := secretsOf(s).CreateSecret(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return *out.ARN
}

// wait lets time pass, and what it brings happen.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
