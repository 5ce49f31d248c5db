package ecs

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

func strategy(items ...types.CapacityProviderStrategyItem) func(*sdk.RunTaskInput) {
	return func(r *sdk.RunTaskInput) { r.LaunchType, r.CapacityProviderStrategy = "", items }
}

func item(name string, weight, base int32) types.CapacityProviderStrategyItem {
	return types.CapacityProviderStrategyItem{CapacityProvider: &name, Weight: weight, Base: base}
}

func TestPlaceRules(t *testing.T) {
	cfg := Config{
		CapacityProviders: []string{"FARGATE"}, SecurityGroups: []string{"sg-1"},
		Subnets: []Subnet{{ID: "subnet-1", VPC: "vpc-1"}, {ID: "subnet-2", VPC: "vpc-1"}, {ID: "subnet-3", VPC: "vpc-2"}},
	}
	network := func(f func(*types.AwsVpcConfiguration)) func(*sdk.RunTaskInput) {
		return func(r *sdk.RunTaskInput) { f(r.NetworkConfiguration.AwsvpcConfiguration) }
	}
	const invalid = "InvalidParameterException"
	for name, tc := range map[string]struct {
		change     func(*sdk.RunTaskInput)
		want, text string
	}{
		"provider":       {strategy(item("FARGATE", 1, 0)), "", ""},
		"not associated": {strategy(item("FARGATE_SPOT", 1, 0)), invalid, "not associated with the cluster"},
		"both": {func(r *sdk.RunTaskInput) {
			r.CapacityProviderStrategy = []types.CapacityProviderStrategyItem{item("FARGATE", 1, 0)}
		}, invalid, "both a launch type"},
		"no weight": {strategy(item("FARGATE", 0, 0)), invalid, "weight"},
		"weight":    {strategy(item("FARGATE", 1001, 0)), invalid, ""},
		"EC2": {
			func(r *sdk.RunTaskInput) { r.LaunchType = types.LaunchTypeEc2 }, invalid, "No Container Instances",
		},
		"subnets": {
			network(func(n *types.AwsVpcConfiguration) { n.Subnets = []string{"subnet-1", "subnet-2"} }), "", "",
		},
		"unknown subnet": {
			network(func(n *types.AwsVpcConfiguration) { n.Subnets = []string{"subnet-4"} }), invalid,
			"InvalidSubnetID.NotFound",
		},
		"two VPCs": {
			network(func(n *types.AwsVpcConfiguration) { n.Subnets = []string{"subnet-1", "subnet-3"} }), invalid, "same VPC",
		},
		"unknown group": {
			network(func(n *types.AwsVpcConfiguration) { n.SecurityGroups = []string{"sg-2"} }), invalid,
			"InvalidGroup.NotFound",
		},
		"six groups": {
			network(func(n *types.AwsVpcConfiguration) { n.SecurityGroups = make([]string, 6) }), invalid, "at most 5",
		},
		"platform": {func(r *sdk.RunTaskInput) { r.PlatformVersion = aws.String("1.4.0") }, "", ""},
		"unknown platform": {
			func(r *sdk.RunTaskInput) { r.PlatformVersion = aws.String("9") }, "PlatformUnknownException", "",
		},
		"exec, no role": {func(r *sdk.RunTaskInput) { r.EnableExecuteCommand = true }, invalid, "taskRoleArn"},
		"exec": {func(r *sdk.RunTaskInput) {
			r.EnableExecuteCommand, r.Overrides = true, &types.TaskOverride{TaskRoleArn: aws.String(testRole)}
		}, "", ""},
		"storage": {func(r *sdk.RunTaskInput) {
			r.Overrides = &types.TaskOverride{EphemeralStorage: &types.EphemeralStorage{SizeInGiB: 20}}
		}, invalid, ""},
		"memory override": {
			func(r *sdk.RunTaskInput) { r.Overrides = &types.TaskOverride{Memory: aws.String("2048")} }, "", "",
		},
		"memory of no size": {
			func(r *sdk.RunTaskInput) { r.Overrides = &types.TaskOverride{Memory: aws.String("4096")} }, invalid, "",
		},
		"overridden twice": {func(r *sdk.RunTaskInput) {
			r.Overrides = &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{
				{Name: aws.String("app")}, {Name: aws.String("app")},
			}}
		}, invalid, "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			c := client(New(cfg))
			if _, err := c.RegisterTaskDefinition(t.Context(), definitionOf(app("sleep", "1"))); err != nil {
				t.Fatal(err)
			}
			r := runOf()
			tc.change(r)
			_, err := c.RunTask(t.Context(), r)
			if got := code(t, err); got != tc.want || err != nil && !strings.Contains(err.Error(), tc.text) {
				t.Fatalf("got %q (%v), want %q", got, err, tc.want)
			}
		})
	}
}

// attempt runs a task once and says how it went: its subnet and provider, or why not.
func attempt(t *testing.T, s *Server, change func(*sdk.RunTaskInput)) string {
	t.Helper()
	r := runOf()
	r.ClientToken = nil
	if change != nil {
		change(r)
	}
	out, err := client(s).RunTask(t.Context(), r)
	switch {
	case err != nil:
		return code(t, err)
	case len(out.Failures) > 0:
		return *out.Failures[0].Reason
	}
	for _, d := range out.Tasks[0].Attachments[0].Details {
		if *d.Name == "subnetId" {
			return strings.TrimSpace(*d.Value + " " + aws.ToString(out.Tasks[0].CapacityProviderName))
		}
	}
	return "no subnet"
}

func TestShortage(t *testing.T) {
	bothWays(t, Config{}, func(t *testing.T, s *Server) {
		if _, err := client(s).RegisterTaskDefinition(t.Context(), definitionOf(app("sleep", "60"))); err != nil {
			t.Fatal(err)
		}
		two := func(r *sdk.RunTaskInput) {
			r.NetworkConfiguration.AwsvpcConfiguration.Subnets = []string{"subnet-1", "subnet-2"}
		}
		onSpot := strategy(item("FARGATE_SPOT", 1, 0))
		if a, b := attempt(t, s, two), attempt(t, s, two); a != "subnet-1" || b != "subnet-2" {
			t.Fatalf("the subnets take no turns: %s, %s", a, b)
		}
		s.Shortage("subnet-1", "", true)
		if a, b := attempt(t, s, two), attempt(t, s, two); a != noCapacity || b != "subnet-2" {
			t.Fatalf("%s, %s", a, b)
		}
		s.Shortage("subnet-1", "", false)
		s.Shortage("", "FARGATE_SPOT", true)
		if a, b := attempt(t, s, onSpot), attempt(t, s, nil); a != noCapacity || b != "subnet-1" {
			t.Fatalf("%s, %s", a, b)
		}
		s.Shortage("", "FARGATE_SPOT", false)
		if a := attempt(t, s, onSpot); a != "subnet-1 FARGATE_SPOT" {
			t.Fatal(a)
		}
		if a := attempt(t, s, strategy(item("FARGATE_SPOT", 3, 0), item("FARGATE", 0, 1))); a != "subnet-1 FARGATE" {
			t.Fatalf("the base is not met first: %s", a)
		}
	})
}

func TestQuota(t *testing.T) {
	for _, asFailure := range []bool{false, true} {
		bothWays(t, Config{VCPU: 0.5, SpotVCPU: 0.25, QuotaAsFailure: asFailure}, func(t *testing.T, s *Server) {
			if _, err := client(s).RegisterTaskDefinition(t.Context(), definitionOf(app("sleep", "60"))); err != nil {
				t.Fatal(err)
			}
			full := "ClientException"
			if asFailure {
				full = quotaReached
			}
			onSpot := strategy(item("FARGATE_SPOT", 1, 0))
			for i, want := range []string{"subnet-1", "subnet-1", full} {
				if got := attempt(t, s, nil); got != want {
					t.Fatalf("%d: %s", i, got)
				}
			}
			for i, want := range []string{"subnet-1 FARGATE_SPOT", full} {
				if got := attempt(t, s, onSpot); got != want {
					t.Fatalf("Spot %d: %s", i, got)
				}
			}
			wait(time.Minute) // they have stopped
			if got := attempt(t, s, nil); got != "subnet-1" {
				t.Fatal(got)
			}
			s.SetQuota(0, 0)
			for range 5 {
				if got := attempt(t, s, nil); got != "subnet-1" {
					t.Fatal(got)
				}
			}
		})
	}
}

func TestDescribeClusters(t *testing.T) {
	virtual(t, Config{}, func(t *testing.T, s *Server, c *sdk.Client) {
		launch(t, c, app("sleep", "60"))
		out, err := c.DescribeClusters(t.Context(), &sdk.DescribeClustersInput{Clusters: []string{"default", "other"}})
		if err != nil || len(out.Clusters) != 1 || out.Clusters[0].RunningTasksCount != 1 ||
			len(out.Clusters[0].CapacityProviders) != 2 ||
			len(out.Failures) != 1 || *out.Failures[0].Reason != "MISSING" {
			t.Fatalf("%v, %v", out, err)
		}
	})
}
