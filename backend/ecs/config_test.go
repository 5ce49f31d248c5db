package ecs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	awsecstypes "github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/smithy-go"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
	"github.com/burstlet/burstlet/backend/ecs/fargate"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
)

func taskWith(o *awsecstypes.TaskOverride) awsecstypes.Task { return awsecstypes.Task{Overrides: o} }

func TestValidate(t *testing.T) {
	valid := configOf(stub.New(stub.Config{}))
	if err := valid.Validate(); err != nil {
		t.Fatal(err)
	}
	if err := goldenConfig.Validate(); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*Config){
		"region":           func(c *Config) { c.Region = "" },
		"cluster":          func(c *Config) { c.Cluster = "" },
		"nodeIdentity":     func(c *Config) { c.NodeIdentity = "" },
		"subnets":          func(c *Config) { c.Subnets = nil },
		"securityGroups":   func(c *Config) { c.SecurityGroups = []string{"default"} },
		"executionRoleARN": func(c *Config) { c.LogGroup = "g" },
		"taskRoleARN":      func(c *Config) { c.TaskRoleARN = "role" },
		"cpuArchitecture":  func(c *Config) { c.CPUArchitecture = "amd64" },
		"settle":           func(c *Config) { c.Settle = -1 },
		"unusedAfter":      func(c *Config) { c.UnusedAfter = time.Minute },
		"eventQueueURL":    func(c *Config) { c.EventQueueURL = "queue" },
		"taskImage":        func(c *Config) { c.TaskImage = strings.Repeat("x", 256) },
		"capacityTypes":    func(c *Config) { c.CapacityTypes = []string{"FARGATE"} },
		"platformVersion":  func(c *Config) { c.PlatformVersion = "1.3.0" },
		"logOptions": func(c *Config) {
			c.LogGroup, c.ExecutionRoleARN, c.LogOptions = "g", goldenConfig.ExecutionRoleARN, map[string]string{"awslogs-region": "x"}
		},
		"ephemeralStorageGiB": func(c *Config) { c.EphemeralStorageGiB = 20 },
		"rates":               func(c *Config) { c.Rates = fargate.Rates{VCPU: -1} },
		"accessKeyID":         func(c *Config) { c.Endpoint = "" },
	} {
		cfg := valid
		change(&cfg)
		_, err := New(context.Background(), cfg)
		if err == nil || !strings.Contains(err.Error(), field+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := (Config{}).Validate(); err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("not all fields are named: %v", err)
	}
}

func TestClassify(t *testing.T) {
	answer := func(code, text string) error {
		return fmt.Errorf("wrapped: %w", &smithy.GenericAPIError{Code: code, Message: text})
	}
	for _, tc := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("connection refused"), "Unavailable"},
		{context.Canceled, "Unavailable"},
		{&smithy.DeserializationError{Err: errors.New("x")}, "Unavailable"},
		{&smithy.SerializationError{Err: errors.New("x")}, "Invalid"},
		{answer("ThrottlingException", ""), "Throttled"},
		{answer("ExpiredTokenException", ""), "Denied"},
		{answer("AccessDeniedException", ""), "Denied"},
		{answer("ClusterNotFoundException", ""), "Unavailable"},
		{answer("ServerException", ""), "Unavailable"},
		{answer("ClientException", "x"), "Invalid"},
		{answer("InvalidParameterException", "Error retrieving subnet information for [subnet-1]"), "Transient"},
		{answer("ClientException", "ECS was unable to assume the role 'x' that was provided"), "Transient"},
		{answer("ClientException", "You've reached the limit on the number of vCPUs you can run concurrently"), "Capacity"},
		{answer("UnsupportedFeatureException", ""), "Unsupported"},
		{answer("ConflictException", ""), "Exists"},
		{answer("SomethingNewException", ""), "Transient"},
	} {
		if got := backend.Class(awscall.Classify(tc.err)); got != tc.want {
			t.Errorf("%v: got %s, want %s", tc.err, got, tc.want)
		}
	}
}
