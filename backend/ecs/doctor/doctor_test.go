package doctor

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/burstlet/burstlet/backend/ecs/ecstest"
	"github.com/burstlet/burstlet/backend/ecs/fargate"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
)

// What doctor asks for is what the policy of deploy/aws grants, statement by statement.
func TestDoctorAsksForWhatTheControllersPolicyGrants(t *testing.T) {
	cfg := Config{EventQueueURL: "https://sqs.us-east-1.amazonaws.com/123456789012/events"}
	cfg.Region, cfg.Cluster, cfg.NodeIdentity = "us-east-1", "default", "cluster-uid/node.example"
	cfg.TaskImage, cfg.LogGroup = "burstlet/burstlet:1", "/burstlet/pods"
	cfg.ExecutionRoleARN, cfg.TaskRoleARN = "arn:aws:iam::123456789012:role/execution",
		"arn:aws:iam::123456789012:role/task"
	cfg.EBS = taskdef.EBS{RoleARN: "arn:aws:iam::123456789012:role/volumes"}
	cfg.PayloadBucket = "payloads"
	d := &doctor{cfg: cfg, account: "123456789012", cluster: "arn:aws:ecs:us-east-1:123456789012:cluster/default"}
	// checkCluster, checkBucket
	asked := map[string]bool{"Cluster ecs:DescribeClusters": true, "ListPayloads s3:ListBucket": true}
	policy, err := ecstest.ReadPolicy("../../../deploy/aws/controller-policy.json", cfg.LogGroup)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range d.wanted() {
		asked[p.sid+" "+p.action] = true
		if !policy.Allows(p.action, p.resource) && p.resource != "*" {
			t.Errorf("the policy does not grant %s on %s", p.action, p.resource)
		}
	}
	granted := map[string]bool{}
	for _, statement := range policy.Statement {
		for _, action := range statement.Action {
			granted[statement.Sid+" "+action] = true
		}
	}
	if want, got := slices.Sorted(maps.Keys(granted)), slices.Sorted(maps.Keys(asked)); !slices.Equal(want, got) {
		t.Errorf("granted: %v\nasked:   %v", want, got)
	}
}

func TestQueriesGoWhereTheServicesAre(t *testing.T) {
	for _, tc := range []struct{ region, service, endpoint, signed string }{
		{"eu-central-1", "sts", "https://sts.eu-central-1.amazonaws.com", "eu-central-1"},
		{"eu-central-1", "iam", "https://iam.amazonaws.com", "us-east-1"},
		{"cn-north-1", "ec2", "https://ec2.cn-north-1.amazonaws.com.cn", "cn-north-1"},
		{"cn-northwest-1", "iam", "https://iam.cn-north-1.amazonaws.com.cn", "cn-north-1"},
		{"us-gov-east-1", "iam", "https://iam.us-gov.amazonaws.com", "us-gov-west-1"},
		{"us-gov-west-1", "ec2", "https://ec2.us-gov-west-1.amazonaws.com", "us-gov-west-1"},
		{"eusc-de-east-1", "sts", "https://sts.eusc-de-east-1.amazonaws.eu", "eusc-de-east-1"},
		{"eusc-de-east-1", "iam", "https://iam.eusc-de-east-1.amazonaws.eu", "eusc-de-east-1"},
	} {
		if endpoint, signed := (querier{region: tc.region}).where(tc.service); endpoint != tc.endpoint ||
			signed != tc.signed {
			t.Errorf("%s in %s: %s signed for %s", tc.service, tc.region, endpoint, signed)
		}
	}
}

// TestPartitionsInARNs: an ARN of a resource begins with the part of AWS that its region is in.
func TestPartitionsInARNs(t *testing.T) {
	for region, want := range map[string]string{
		"eu-central-1":   "arn:aws:logs:eu-central-1:123456789012:log-group:g",
		"us-east-1":      "arn:aws:logs:us-east-1:123456789012:log-group:g",
		"cn-north-1":     "arn:aws-cn:logs:cn-north-1:123456789012:log-group:g",
		"us-gov-west-1":  "arn:aws-us-gov:logs:us-gov-west-1:123456789012:log-group:g",
		"eusc-de-east-1": "arn:aws-eusc:logs:eusc-de-east-1:123456789012:log-group:g",
	} {
		d := &doctor{account: "123456789012"}
		d.cfg.Region = region
		if got := d.arn("logs", "log-group:g"); got != want {
			t.Errorf("%s: %s, want %s", region, got, want)
		}
	}
	for image, want := range map[string]string{
		"123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/app:1": "arn:aws:ecr:eu-west-1:123456789012:repository/team/app",
		"123456789012.dkr-ecr.eu-west-1.on.aws/app@sha256:0123":   "arn:aws:ecr:eu-west-1:123456789012:repository/app",
		"123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/app":    "arn:aws-cn:ecr:cn-north-1:123456789012:repository/app",
		"123456789012.dkr.ecr.eusc-de-east-1.amazonaws.eu/app:1@sha256:0123": "arn:aws-eusc:ecr:eusc-de-east-1:" +
			"123456789012:repository/app",
		"123456789012.dkr.ecr.eu-west-1.amazonaws.com": "",
		"public.ecr.aws/docker/library/busybox":        "",
		"busybox":                                      "",
	} {
		if got, ok := (&doctor{}).privateRepository(image); got != want || ok != (want != "") {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
	}
}

// Where AWS's list lacks the region, prices that nobody configured are said to be another's.
func TestDoctorSaysWhosePricesTheyAre(t *testing.T) {
	own := fargate.Rates{VCPU: 0.04048, GB: 0.004445, ARMVCPU: 0.03238, ARMGB: 0.00356}
	for name, tt := range map[string]struct {
		region string
		rates  fargate.Rates
		told   bool
	}{
		"their region's":          {"us-east-1", fargate.Rates{}, false},
		"another region's own":    {"eu-central-1", fargate.Rates{}, false},
		"another's":               {"cn-north-1", fargate.Rates{}, true},
		"another's, as filled in": {"cn-north-1", fargate.Rates{}.OrPublished("cn-north-1"), true},
		"one's own":               {"cn-north-1", own, false},
		"one's own, as filled in": {"cn-north-1", own.OrPublished("cn-north-1"), false},
	} {
		t.Run(name, func(t *testing.T) {
			d := &doctor{}
			d.cfg.Region, d.cfg.Rates = tt.region, tt.rates
			if d.prices(); len(d.found) > 0 != tt.told {
				t.Fatalf("%+v", d.found)
			}
			for _, f := range d.found {
				if !f.Warn || !strings.Contains(f.Detail, "those of us-east-1 on ") ||
					!strings.Contains(f.Advice, "backend.ecs.prices to those of cn-north-1") {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}
