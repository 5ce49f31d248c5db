package ecs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/smithy-go"
)

// client is the AWS SDK's client of a server, without retries.
func client(s *Server) *sdk.Client {
	return sdk.New(sdk.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(Endpoint), HTTPClient: s.Client(), Retryer: aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "not-a-secret", ""),
	})
}

func app(words ...string) types.ContainerDefinition {
	return types.ContainerDefinition{Name: aws.String("app"), Image: aws.String("busybox:1"), EntryPoint: words}
}

func definitionOf(cs ...types.ContainerDefinition) *sdk.RegisterTaskDefinitionInput {
	return &sdk.RegisterTaskDefinitionInput{
		Family: aws.String("f"), NetworkMode: types.NetworkModeAwsvpc, Cpu: aws.String("256"), Memory: aws.String("512"),
		RequiresCompatibilities: []types.Compatibility{types.CompatibilityFargate}, ContainerDefinitions: cs,
	}
}

func runOf() *sdk.RunTaskInput {
	return &sdk.RunTaskInput{
		TaskDefinition: aws.String("f"), LaunchType: types.LaunchTypeFargate, ClientToken: aws.String("t"),
		StartedBy: aws.String("me"),
		NetworkConfiguration: &types.NetworkConfiguration{
			AwsvpcConfiguration: &types.AwsVpcConfiguration{Subnets: []string{"subnet-1"}},
		},
	}
}

// code is the error code of an AWS error, "" for nil.
func code(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		t.Fatalf("not an API error: %v", err)
	}
	return api.ErrorCode()
}

func TestRegisterRules(t *testing.T) {
	type in = *sdk.RegisterTaskDefinitionInput
	c0 := func(f func(*types.ContainerDefinition)) func(in) {
		return func(d in) { f(&d.ContainerDefinitions[0]) }
	}
	for name, tc := range map[string]struct {
		change func(in)
		want   string
	}{
		"valid":             {func(in) {}, ""},
		"size by unit":      {func(d in) { d.Cpu, d.Memory = aws.String("1 vCPU"), aws.String("2 GB") }, ""},
		"size not in table": {func(d in) { d.Memory = aws.String("700") }, "ClientException"},
		"no size":           {func(d in) { d.Cpu = nil }, "ClientException"},
		"bridge":            {func(d in) { d.NetworkMode = types.NetworkModeBridge }, "ClientException"},
		"family":            {func(d in) { d.Family = aws.String("a.b") }, "ClientException"},
		"ipc":               {func(d in) { d.IpcMode = types.IpcModeTask }, "ClientException"},
		"pid host":          {func(d in) { d.PidMode = types.PidModeHost }, "ClientException"},
		"privileged":        {c0(func(c *types.ContainerDefinition) { c.Privileged = aws.Bool(true) }), "ClientException"},
		"hostname":          {c0(func(c *types.ContainerDefinition) { c.Hostname = aws.String("x") }), "ClientException"},
		"stopTimeout":       {c0(func(c *types.ContainerDefinition) { c.StopTimeout = aws.Int32(121) }), "ClientException"},
		"memory too small":  {c0(func(c *types.ContainerDefinition) { c.Memory = aws.Int32(5) }), "ClientException"},
		"memory too big":    {c0(func(c *types.ContainerDefinition) { c.Memory = aws.Int32(513) }), "ClientException"},
		"no image":          {c0(func(c *types.ContainerDefinition) { c.Image = nil }), "ClientException"},
		"nothing essential": {c0(func(c *types.ContainerDefinition) { c.Essential = aws.Bool(false) }), "ClientException"},
		"repeated container": {
			func(d in) { d.ContainerDefinitions = append(d.ContainerDefinitions, app()) }, "ClientException",
		},
		"logs without a role": {c0(func(c *types.ContainerDefinition) {
			c.LogConfiguration = &types.LogConfiguration{LogDriver: "awslogs", Options: map[string]string{
				"awslogs-group": "g", "awslogs-region": "r", "awslogs-stream-prefix": "p",
			}}
		}), "ClientException"},
		"capability": {c0(func(c *types.ContainerDefinition) {
			c.LinuxParameters = &types.LinuxParameters{Capabilities: &types.KernelCapabilities{Add: []string{"NET_ADMIN"}}}
		}), "ClientException"},
		"SYS_PTRACE": {c0(func(c *types.ContainerDefinition) {
			c.LinuxParameters = &types.LinuxParameters{Capabilities: &types.KernelCapabilities{Add: []string{"SYS_PTRACE"}}}
		}), ""},
		"depends on nobody": {c0(func(c *types.ContainerDefinition) {
			c.DependsOn = []types.ContainerDependency{{ContainerName: aws.String("x"), Condition: "START"}}
		}), "ClientException"},
		"depends on essential": {func(d in) {
			b := app()
			b.Name = aws.String("b")
			b.DependsOn = []types.ContainerDependency{{ContainerName: aws.String("app"), Condition: "SUCCESS"}}
			d.ContainerDefinitions = append(d.ContainerDefinitions, b)
		}, "ClientException"},
		"too many": {func(d in) {
			for i := range 10 {
				b := app()
				b.Name = aws.String(fmt.Sprint("c", i))
				d.ContainerDefinitions = append(d.ContainerDefinitions, b)
			}
		}, "ClientException"},
		"port twice": {c0(func(c *types.ContainerDefinition) {
			c.PortMappings = []types.PortMapping{
				{ContainerPort: aws.Int32(53), Protocol: "tcp"}, {ContainerPort: aws.Int32(53), Protocol: "udp"},
			}
		}), "ClientException"},
		"too long": {
			c0(func(c *types.ContainerDefinition) { c.Command = []string{strings.Repeat("x", 64<<10)} }), "ClientException",
		},
		"not modelled": {func(d in) {
			d.ProxyConfiguration = &types.ProxyConfiguration{ContainerName: aws.String("app")}
		}, "SerializationException"},
	} {
		t.Run(name, func(t *testing.T) {
			d := definitionOf(app("sleep", "1"))
			tc.change(d)
			_, err := client(New(Config{})).RegisterTaskDefinition(context.Background(), d)
			if got := code(t, err); got != tc.want {
				t.Fatalf("got %q (%v), want %q", got, err, tc.want)
			}
		})
	}
}

func TestRunTaskRules(t *testing.T) {
	type in = *sdk.RunTaskInput
	for name, tc := range map[string]struct {
		change func(in)
		want   string
	}{
		"valid":       {func(in) {}, ""},
		"cluster":     {func(r in) { r.Cluster = aws.String("x") }, "ClusterNotFoundException"},
		"definition":  {func(r in) { r.TaskDefinition = aws.String("nope") }, "ClientException"},
		"revision":    {func(r in) { r.TaskDefinition = aws.String("f:2") }, "ClientException"},
		"launch type": {func(r in) { r.LaunchType = "" }, "InvalidParameterException"},
		"no network":  {func(r in) { r.NetworkConfiguration = nil }, "InvalidParameterException"},
		"subnet": {
			func(r in) { r.NetworkConfiguration.AwsvpcConfiguration.Subnets[0] = "x" }, "InvalidParameterException",
		},
		"startedBy":        {func(r in) { r.StartedBy = aws.String("a.b") }, "InvalidParameterException"},
		"startedBy length": {func(r in) { r.StartedBy = aws.String(strings.Repeat("a", 129)) }, "InvalidParameterException"},
		"token length":     {func(r in) { r.ClientToken = aws.String(strings.Repeat("a", 65)) }, "InvalidParameterException"},
		"token characters": {func(r in) { r.ClientToken = aws.String("a b") }, "InvalidParameterException"},
		"count":            {func(r in) { r.Count = aws.Int32(11) }, "InvalidParameterException"},
		"propagateTags":    {func(r in) { r.PropagateTags = types.PropagateTagsService }, "InvalidParameterException"},
		"tag": {func(r in) {
			r.Tags = []types.Tag{{Key: aws.String("aws:x"), Value: aws.String("")}}
		}, "InvalidParameterException"},
		"override of nobody": {func(r in) {
			r.Overrides = &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{{Name: aws.String("x")}}}
		}, "InvalidParameterException"},
		"override too long": {func(r in) {
			r.Overrides = &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{{
				Name: aws.String("app"), Command: []string{strings.Repeat("x", 8192)},
			}}}
		}, "InvalidParameterException"},
		"override size": {func(r in) {
			r.Overrides = &types.TaskOverride{Cpu: aws.String("1"), Memory: aws.String("1")}
		}, "InvalidParameterException"},
	} {
		t.Run(name, func(t *testing.T) {
			c := client(New(Config{}))
			if _, err := c.RegisterTaskDefinition(context.Background(), definitionOf(app("sleep", "1"))); err != nil {
				t.Fatal(err)
			}
			r := runOf()
			tc.change(r)
			_, err := c.RunTask(context.Background(), r)
			if got := code(t, err); got != tc.want {
				t.Fatalf("got %q (%v), want %q", got, err, tc.want)
			}
		})
	}
}

// raw posts a body and returns status and answer.
func raw(t *testing.T, s *Server, action, body string, change func(*http.Request)) (int, map[string]any) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, Endpoint, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", "AmazonEC2ContainerServiceV20141113."+action)
	r.Header.Set("Content-Type", contentType)
	r.Header.Set(
		"Authorization",
		"AWS4-HMAC-SHA256 Credential=AKID/20260101/us-east-1/ecs/aws4_request, SignedHeaders=host, Signature=0",
	)
	if change != nil {
		change(r)
	}
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return resp.StatusCode, out
}

func TestWire(t *testing.T) {
	for name, tc := range map[string]struct {
		action, body string
		change       func(*http.Request)
		want         string
	}{
		"unknown action": {"Nope", "{}", nil, "UnknownOperationException"},
		"content type": {
			"ListTasks", "{}", func(r *http.Request) { r.Header.Set("Content-Type", "application/json") },
			"SerializationException",
		},
		"not JSON":       {"ListTasks", "{", nil, "SerializationException"},
		"wrong type":     {"ListTasks", `{"maxResults":"1"}`, nil, "SerializationException"},
		"number":         {"RegisterTaskDefinition", `{"cpu":256}`, nil, "SerializationException"},
		"unknown member": {"ListTasks", `{"Cluster":"default"}`, nil, "SerializationException"},
		"twice":          {"ListTasks", `{"cluster":"default","cluster":"default"}`, nil, "SerializationException"},
		"unsigned": {
			"ListTasks", "{}", func(r *http.Request) { r.Header.Del("Authorization") }, "MissingAuthenticationTokenException",
		},
		"other service": {"ListTasks", "{}", func(r *http.Request) {
			r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), "/ecs/", "/s3/", 1))
		}, "InvalidSignatureException"},
	} {
		t.Run(name, func(t *testing.T) {
			status, out := raw(t, New(Config{}), tc.action, tc.body, tc.change)
			if status != 400 || out["__type"] != "com.amazonaws.ecs#"+tc.want {
				t.Fatalf("got %d %v, want %s", status, out, tc.want)
			}
		})
	}
	if status, out := raw(t, New(Config{AccessKey: "other"}), "ListTasks", "", nil); status != 400 ||
		out["__type"] != "com.amazonaws.ecs#UnrecognizedClientException" {
		t.Fatalf("wrong key: %d %v", status, out)
	}
}

// The types of members in answers: the SDK refuses a whole answer for one wrong type.
func TestAnswerTypes(t *testing.T) {
	s := New(Config{})
	c := client(s)
	if _, err := c.RegisterTaskDefinition(context.Background(), definitionOf(app("sleep", "60"))); err != nil {
		t.Fatal(err)
	}
	out, err := c.RunTask(context.Background(), runOf())
	if err != nil {
		t.Fatal(err)
	}
	_, answer := raw(t, s, "DescribeTasks", `{"tasks":["`+*out.Tasks[0].TaskArn+`"]}`, nil)
	task := answer["tasks"].([]any)[0].(map[string]any)
	container := task["containers"].([]any)[0].(map[string]any)
	for name, v := range map[string]any{"createdAt": task["createdAt"], "version": task["version"]} {
		if _, ok := v.(float64); !ok {
			t.Errorf("%s is %T, want a number", name, v)
		}
	}
	for name, v := range map[string]any{"cpu": task["cpu"], "memory": task["memory"], "container cpu": container["cpu"]} {
		if _, ok := v.(string); !ok {
			t.Errorf("%s is %T, want a string", name, v)
		}
	}
}

func TestOverASocket(t *testing.T) {
	s := New(Config{})
	url, stop, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	post := func() error {
		r, err := http.NewRequest(http.MethodPost, url, bytes.NewReader([]byte("{}")))
		if err != nil {
			return err
		}
		r.Header.Set("X-Amz-Target", "AmazonEC2ContainerServiceV20141113.ListTasks")
		r.Header.Set("Content-Type", contentType)
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKID/20260101/us-east-1/ecs/aws4_request, Signature=0")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return nil
	}
	if err := post(); err != nil {
		t.Fatal(err)
	}
	s.Inject(Fault{Action: "ListTasks", LoseReply: true})
	if err := post(); err == nil {
		t.Fatal("the connection was not dropped")
	}
}

func virtual(t *testing.T, cfg Config, f func(*testing.T, *Server, *sdk.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := New(cfg)
		f(t, s, client(s))
	})
}

// launch registers and runs a definition and returns the ARN.
func launch(t *testing.T, c *sdk.Client, cs ...types.ContainerDefinition) string {
	t.Helper()
	if _, err := c.RegisterTaskDefinition(t.Context(), definitionOf(cs...)); err != nil {
		t.Fatal(err)
	}
	out, err := c.RunTask(t.Context(), runOf())
	if err != nil || len(out.Tasks) != 1 {
		t.Fatalf("%v, %v", out, err)
	}
	return *out.Tasks[0].TaskArn
}

func describe(t *testing.T, c *sdk.Client, arn string) types.Task {
	t.Helper()
	synctest.Wait() // what is under way now, in a fake runner
	out, err := c.DescribeTasks(t.Context(), &sdk.DescribeTasksInput{Tasks: []string{arn}})
	if err != nil || len(out.Tasks) != 1 {
		t.Fatalf("%v, %v", out, err)
	}
	return out.Tasks[0]
}

var slow = Delays{
	Provision: 10 * time.Second, Pull: 5 * time.Second, Deactivate: time.Second, Deprovision: 8 * time.Second,
}
