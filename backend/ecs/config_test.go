package ecs

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
	"github.com/burstlet/burstlet/backend/ecs/fargate"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// wholeNode is a node with everything set that decides what its tasks are.
var wholeNode = ecsconfig.Config{
	Region: "eu-central-1", Cluster: "burst", Subnets: []string{"subnet-1", "subnet-2"}, SecurityGroups: []string{"sg-1"},
	AssignPublicIP:   true,
	ExecutionRoleARN: "arn:aws:iam::123456789012:role/execution", TaskRoleARN: "arn:aws:iam::123456789012:role/task",
	NodeIdentity: "6b1f/burst-1.example", CPUArchitecture: fargate.ARM, LogGroup: "/burstlet",
	LogOptions: map[string]string{"mode": "blocking"}, TaskImage: "registry.example/burstlet:1",
	ClusterDNS:    []string{"192.0.2.10"},
	ClusterDomain: "cluster.local", Refresh: time.Minute, CapacityTypes: []string{ecsconfig.CapacitySpot},
	PlatformVersion:     "1.4.0",
	EphemeralStorageGiB: 50, EBS: ecsconfig.EBS{RoleARN: infraRole}, Rates: fargate.PublishedRates(fargate.PricesRegion),
	Endpoint: "https://aws.example",
}

func TestValidate(t *testing.T) {
	valid := configOf(stub.New(stub.Config{}))
	if err := valid.Validate(); err != nil {
		t.Fatal(err)
	}
	if err := wholeNode.Validate(); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*Config){
		"region":            func(c *Config) { c.Region = "" },
		"cluster":           func(c *Config) { c.Cluster = "" },
		"nodeIdentity":      func(c *Config) { c.NodeIdentity = "" },
		"subnets":           func(c *Config) { c.Subnets = nil },
		"securityGroups[0]": func(c *Config) { c.SecurityGroups = []string{"default"} },
		"executionRoleARN":  func(c *Config) { c.LogGroup = "g" },
		"taskRoleARN":       func(c *Config) { c.TaskRoleARN = "role" },
		"cpuArchitecture":   func(c *Config) { c.CPUArchitecture = "amd64" },
		"settle":            func(c *Config) { c.Settle = -1 },
		"unusedAfter":       func(c *Config) { c.UnusedAfter = time.Minute },
		"eventQueueURL":     func(c *Config) { c.EventQueueURL = "queue" },
		"taskImage":         func(c *Config) { c.TaskImage = strings.Repeat("x", 256) },
		"capacityTypes[0]":  func(c *Config) { c.CapacityTypes = []string{"FARGATE"} },
		"platformVersion":   func(c *Config) { c.PlatformVersion = "1.3.0" },
		"logOptions": func(c *Config) {
			c.LogGroup, c.ExecutionRoleARN = "g", wholeNode.ExecutionRoleARN
			c.LogOptions = map[string]string{"awslogs-region": "x"}
		},
		"ephemeralStorageGiB": func(c *Config) { c.EphemeralStorageGiB = 20 },
		"prices.vcpu":         func(c *Config) { c.Rates = fargate.Rates{VCPU: -1} },
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
