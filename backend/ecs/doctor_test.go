package ecs

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
	fakes3 "github.com/burstlet/burstlet/test/fakeaws/s3"
)

// doctorConfig uses all that there is.
func doctorConfig(s *stub.Server) Config {
	cfg := richConfig(s)
	cfg.LogGroup, cfg.EventQueueURL, cfg.EBS = testGroup, s.QueueURL("events"), taskdef.EBS{RoleARN: infraRole}
	cfg.CapacityTypes = []string{ecsconfig.CapacityOnDemand, ecsconfig.CapacitySpot}
	cfg.PayloadBucket = testBucket
	return cfg
}

func doctorWorld(change func(*stub.Config)) *stub.Server {
	cfg := stub.Config{
		LogGroups: []string{testGroup}, Queues: []string{"events"}, Buckets: []fakes3.Bucket{{Name: testBucket}},
	}
	if change != nil {
		change(&cfg)
	}
	return stub.New(cfg)
}

func verdictOf(f backend.Finding) string {
	switch {
	case f.OK:
		return "ok"
	case f.Warn:
		return "warn"
	}
	return "FAIL"
}

func linesOf(found []backend.Finding) string {
	var out strings.Builder
	for _, f := range found {
		fmt.Fprintf(&out, "%s %s: %s; %s\n", verdictOf(f), f.What, f.Detail, f.Advice)
	}
	return out.String()
}

// keeps is a transport that remembers which actions were called.
type keeps struct {
	next    http.RoundTripper
	targets map[string]bool
	// date changes the clock of all answers.
	date time.Duration
}

func (k *keeps) RoundTrip(r *http.Request) (*http.Response, error) {
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		k.targets[target[strings.LastIndex(target, ".")+1:]] = true
	}
	resp, err := k.next.RoundTrip(r)
	if err == nil && k.date != 0 {
		resp.Header.Set("Date", time.Now().Add(k.date).UTC().Format(http.TimeFormat))
	}
	return resp, err
}

func TestDoctorFindsNothingWrongAndChangesNothing(t *testing.T) {
	s := doctorWorld(nil)
	cfg := doctorConfig(s)
	seen := &keeps{next: s.Client().Transport, targets: map[string]bool{}}
	cfg.HTTPClient = &http.Client{Transport: seen}
	found := Diagnose(t.Context(), cfg)
	var whats []string
	for _, f := range found {
		if !f.OK {
			t.Errorf("%s", linesOf([]backend.Finding{f}))
		}
		whats = append(whats, f.What)
	}
	want := []string{
		"AWS credentials", "AWS caller", "AWS clock", "ECS cluster", "capacity", "AWS permissions", "event queue",
		"payload bucket", "AWS permissions",
		"execution role", "execution role", "task role", "task role", "role of volumes", "subnets", "security groups",
		"vCPU quota", "vCPU quota",
	}
	if !slices.Equal(whats, want) {
		t.Errorf("looked at %v", whats)
	}
	if text := linesOf(found); strings.Contains(text, cfg.SecretAccessKey) || strings.Contains(text, cfg.AccessKeyID) ||
		strings.Contains(text, "password") {
		t.Errorf("a secret is told:\n%s", text)
	}
	for call := range seen.targets {
		if !strings.HasPrefix(call, "Describe") && !strings.HasPrefix(call, "List") && !strings.HasPrefix(call, "Get") {
			t.Errorf("doctor called %s", call)
		}
	}
	if report := s.Report(); len(report.Tasks) != 0 || len(report.Definitions) != 0 || len(report.Secrets) != 0 ||
		len(report.Objects) != 0 {
		t.Errorf("doctor made %+v", report)
	}
}

func TestDoctorNamesWhatAnAccountLacks(t *testing.T) {
	for name, tc := range map[string]struct {
		world func(*stub.Config)
		deny  string
		set   func(*Config)
		want  string
	}{
		"a bad key": {
			world: func(c *stub.Config) { c.AccessKey = "another" },
			want: "FAIL AWS caller: InvalidClientTokenId: The security token included in the request is invalid.; the " +
				"credentials have expired",
		},
		"a clock": {
			set: func(c *Config) { c.HTTPClient.Transport.(*keeps).date = -time.Hour }, want: "FAIL AWS clock: AWS's is -",
		},
		"a slow clock": {
			set:  func(c *Config) { c.HTTPClient.Transport.(*keeps).date = 30 * time.Second },
			want: "warn AWS clock: AWS's is ",
		},
		"another cluster": {
			set: func(c *Config) { c.Cluster = "other" },
			want: "FAIL ECS cluster: there is no other in us-east-1 of account 123456789012; aws ecs create-cluster " +
				"--region us-east-1 --cluster-name other",
		},
		"no Spot": {
			world: func(c *stub.Config) { c.CapacityProviders = []string{"FARGATE"} },
			want: "FAIL capacity: capacityTypes has spot, and the cluster is not associated with FARGATE_SPOT; aws ecs " +
				"put-cluster-capacity-providers",
		},
		"no right to the cluster": {
			deny: "ecs:DescribeClusters",
			want: "FAIL AWS permission: arn:aws:sts::123456789012:assumed-role/burstlet/caller may not ecs:DescribeClusters " +
				"on arn:aws:ecs:us-east-1:123456789012:cluster/default; " +
				awscall.ControllerPolicy + " grants it",
		},
		"no right to list": {
			deny: "ecs:ListTasks",
			want: "may not ecs:ListTasks on *; deploy/aws/controller-policy.json grants it (statement ListTasks)",
		},
		"no right to run": {deny: "ecs:RunTask", want: "may not ecs:RunTask on " +
			"arn:aws:ecs:us-east-1:123456789012:task-definition/burstlet-doctor:1; " +
			awscall.ControllerPolicy + " grants it (statement Run)"},
		"no right to pass": {deny: "iam:PassRole", want: "may not iam:PassRole on " +
			"arn:aws:iam::123456789012:role/execution; " +
			awscall.ControllerPolicy + " grants it (statement RolesOfTasks)"},
		"no right to keep": {
			deny: "secretsmanager:CreateSecret",
			want: "FAIL AWS permission: arn:aws:sts::123456789012:assumed-role/burstlet/caller may not " +
				"secretsmanager:CreateSecret",
		},
		"no right to ECR": {deny: "ecr:GetAuthorizationToken", want: "warn AWS permission: "},
		"no right to read secrets": {
			deny: "secretsmanager:GetSecretValue", want: "(statement SaltOfNamesAndFilesOfPods)",
		},
		"no log group": {
			set:  func(c *Config) { c.LogGroup = "/other" },
			want: "FAIL AWS permissions: logs:GetLogEvents: the log group does not exist; aws logs create-log-group",
		},
		"no right to logs": {deny: "logs:GetLogEvents", want: "log-group:" + testGroup +
			":log-stream:burstlet/doctor; " + awscall.ControllerPolicy + " grants it (statement Logs)"},
		"no queue": {
			set:  func(c *Config) { c.EventQueueURL += "-other" },
			want: "FAIL event queue: https://sqs.us-east-1.amazonaws.com/123456789012/events-other: QueueDoesNotExist",
		},
		"no right to list objects": {deny: "s3:ListBucket", want: "may not s3:ListBucket on arn:aws:s3:::payloads; " +
			awscall.ControllerPolicy + " grants it (statement ListPayloads); a bucket of another account than 123456789012"},
		"no right to objects": {deny: "s3:PutObject", want: "may not s3:PutObject on arn:aws:s3:::payloads/burstlet/"},
		"no bucket": {
			set: func(c *Config) { c.PayloadBucket = "other" }, want: "FAIL payload bucket: there is no other; make it",
		},
		"a bucket elsewhere": {
			world: func(c *stub.Config) { c.Buckets[0].Region = "eu-west-1" },
			want:  "FAIL payload bucket: payloads is not in us-east-1: ",
		},
		"another's bucket": {
			world: func(c *stub.Config) { c.Buckets[0].Owner = "210987654321" },
			want:  "a bucket of another account than 123456789012 is denied too",
		},
		"a bucket that asks KMS": {
			world: func(c *stub.Config) { c.Buckets[0].KMSKey = "arn:aws:kms:us-east-1:123456789012:key/k" },
			want: "warn payload bucket: payloads encrypts with the KMS key arn:aws:kms:us-east-1:123456789012:key/k, asked " +
				"for each object: every look of every pod at its files is billed by KMS; enable S3 Bucket Keys",
		},
		"a public bucket": {
			world: func(c *stub.Config) { c.Buckets[0].Public = true },
			want:  "warn payload bucket: payloads does not block public access; aws s3api put-public-access-block",
		},
		"a bucket with versions": {
			world: func(c *stub.Config) { c.Buckets[0].Versioned = true },
			want:  "warn payload bucket: payloads keeps versions: ",
		},
		"a bucket that deletes": {
			world: func(c *stub.Config) { c.Buckets[0].ExpireDays = 30 },
			want: "FAIL payload bucket: rule rule of payloads deletes files of pods that still run; leave the prefix " +
				"burstlet/ out of it",
		},
		"a bucket with versions that end": {
			world: func(c *stub.Config) {
				c.Buckets[0] = fakes3.Bucket{Name: testBucket, Versioned: true, NoncurrentDays: 1, KMSKey: "k", BucketKey: true}
			},
			want: "ok payload bucket: payloads is there, and encrypts with the KMS key k;",
		},
		"no role": {
			world: func(c *stub.Config) {
				c.Roles = []stub.Role{{ARN: "arn:aws:iam::123456789012:role/task", Trusts: []string{"ecs-tasks.amazonaws.com"}}}
			},
			want: "FAIL execution role: there is no arn:aws:iam::123456789012:role/execution; make it",
		},
		"no trust": {
			world: func(c *stub.Config) {
				c.Roles = []stub.Role{{ARN: "arn:aws:iam::123456789012:role/execution", Trusts: []string{"ec2.amazonaws.com"}}}
			},
			want: "FAIL execution role: arn:aws:iam::123456789012:role/execution does not trust ecs-tasks.amazonaws.com",
		},
		"trust of another account": {
			world: func(c *stub.Config) { c.Roles = executionTrust(`"StringEquals":{"aws:SourceAccount":"210987654321"}`) },
			want:  "does not trust ecs-tasks.amazonaws.com here: its condition is StringEquals aws:SourceAccount 210987654321;",
		},
		"trust of one cluster": {
			world: func(c *stub.Config) {
				c.Roles = executionTrust(`"ArnLike":{"aws:SourceArn":"arn:aws:ecs:us-east-1:123456789012:cluster/default"}`)
			},
			want: "here: its condition is ArnLike aws:SourceArn arn:aws:ecs:us-east-1:123456789012:cluster/default;",
		},
		"trust of this account": {
			world: func(c *stub.Config) {
				c.Roles = executionTrust(
					`"StringEquals":{"aws:SourceAccount":["123456789012"]},"ArnLike":{"aws:SourceArn":"arn:aws:ecs:us-east-1:123456789012:*"}`,
				)
			},
			want: "ok execution role: arn:aws:iam::123456789012:role/execution trusts ecs-tasks.amazonaws.com;",
		},
		"trust that is taken back": {
			world: func(c *stub.Config) {
				c.Roles = []stub.Role{{
					ARN:   executionARN,
					Trust: `{"Statement":[{"Effect":"Allow","Action":"sts:AssumeRole","Principal":{"Service":"ecs-tasks.amazonaws.com"}},{"Effect":"Deny","Action":"sts:*","Principal":"*"}]}`,
				}}
			},
			want: "FAIL execution role: arn:aws:iam::123456789012:role/execution refuses ecs-tasks.amazonaws.com;",
		},
		"an execution role without logs": {
			world: denies(stub.ExecutionRole, "logs:PutLogEvents"),
			want: "FAIL execution role: arn:aws:iam::123456789012:role/execution may not logs:PutLogEvents on " +
				"arn:aws:logs:us-east-1:123456789012:log-group:" +
				testGroup +
				":log-stream:burstlet/doctor, so that no task starts; deploy/aws/task-execution-role-policy.json grants it " +
				"(statement Logs)",
		},
		"an execution role without images": {
			world: denies(stub.ExecutionRole, "ecr:BatchGetImage"),
			set:   func(c *Config) { c.TaskImage = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/burstlet-task:0.1.0" },
			want: "FAIL execution role: arn:aws:iam::123456789012:role/execution may not ecr:BatchGetImage on " +
				"arn:aws:ecr:eu-west-1:123456789012:repository/team/burstlet-task, so that taskImage cannot be pulled;",
		},
		"images from elsewhere": {
			world: denies(stub.ExecutionRole, "ecr:BatchGetImage"),
			want:  "ok execution role: it has all 3 rights that these tasks need",
		},
		"an execution role without secrets": {
			world: denies(stub.ExecutionRole, "secretsmanager:GetSecretValue"),
			want: "warn execution role: arn:aws:iam::123456789012:role/execution may not secretsmanager:GetSecretValue on " +
				"arn:aws:secretsmanager:us-east-1:123456789012:secret:burstlet/",
		},
		"a task role without files": {
			world: denies(stub.TaskRole, "s3:GetObject"),
			want:  "FAIL task role: arn:aws:iam::123456789012:role/task may not s3:GetObject on arn:aws:s3:::payloads/burstlet/",
		},
		"a task role without sessions": {
			world: denies(stub.TaskRole, "ssmmessages:OpenDataChannel"),
			want: "warn task role: arn:aws:iam::123456789012:role/task may not ssmmessages:OpenDataChannel on *, so that " +
				"exec, cp and port-forward fail; deploy/aws/task-role-policy.json grants it (statement SessionsOfECSExec)",
		},
		"a path": {
			world: func(c *stub.Config) {
				c.Roles = []stub.Role{{
					ARN: "arn:aws:iam::123456789012:role/team/execution", Trusts: []string{"ecs-tasks.amazonaws.com"},
				}}
			},
			want: "FAIL execution role: there is no arn:aws:iam::123456789012:role/execution, but " +
				"arn:aws:iam::123456789012:role/team/execution",
		},
		"no subnet": {
			world: func(c *stub.Config) { c.Subnets = []stub.Subnet{{ID: "subnet-a", VPC: "vpc-1"}} },
			want:  "FAIL subnets: InvalidSubnetID.NotFound: The subnet ID 'subnet-b' does not exist",
		},
		"another VPC": {world: func(c *stub.Config) {
			c.Subnets = []stub.Subnet{{ID: "subnet-a", VPC: "vpc-1"}, {ID: "subnet-b", VPC: "vpc-2"}}
		}, want: "FAIL subnets: subnet-a is in vpc-1, subnet-b in vpc-2"},
		"no group": {
			world: func(c *stub.Config) { c.SecurityGroups = []string{"sg-z"} },
			want:  "FAIL security groups: InvalidGroup.NotFound",
		},
		"no right to tell": {
			world: func(c *stub.Config) {
				c.Policy = func(p stub.Principal, action, _ string) bool {
					return p != stub.TaskRole || action != "sqs:SendMessage"
				}
			},
			want: "warn task role: arn:aws:iam::123456789012:role/task may not sqs:SendMessage on " +
				"arn:aws:sqs:us-east-1:123456789012:",
		},
		"a low quota": {
			world: func(c *stub.Config) { c.VCPU = 6 },
			want:  "warn vCPU quota: Fargate On-Demand vCPU resource count: 6, and the node offers 100; ask for more",
		},
		"no network": {
			set:  func(c *Config) { c.HTTPClient = &http.Client{Transport: unreachable{}} },
			want: "FAIL AWS caller: ask sts: Post \"" + stub.Endpoint + "/\": no route to host; this machine must reach ",
		},
		"no subnet id": {
			set:  func(c *Config) { c.Subnets = nil },
			want: "FAIL configuration: subnets: Required value: the ids of 1 to 16 subnets",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := doctorWorld(tc.world)
			cfg := doctorConfig(s)
			cfg.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100")}
			cfg.HTTPClient = &http.Client{Transport: &keeps{next: s.Client().Transport, targets: map[string]bool{}}}
			if tc.deny != "" {
				s.Deny(stub.Denial{Action: tc.deny})
			}
			if tc.set != nil {
				tc.set(&cfg)
			}
			if got := linesOf(Diagnose(t.Context(), cfg)); !strings.Contains(got, tc.want) {
				t.Errorf("want %s\ngot:\n%s", tc.want, got)
			}
		})
	}
}

const executionARN = "arn:aws:iam::123456789012:role/execution"

// executionTrust is an execution role that trusts ECS on a condition.
func executionTrust(condition string) []stub.Role {
	return []stub.Role{{ARN: executionARN, Trust: `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["sts:AssumeRole"],` +
		`"Principal":{"Service":"ecs-tasks.amazonaws.com"},"Condition":{` + condition + `}}]}`}}
}

// denies denies one principal one action.
func denies(who stub.Principal, denied string) func(*stub.Config) {
	return func(c *stub.Config) {
		c.Policy = func(p stub.Principal, action, _ string) bool { return p != who || action != denied }
	}
}

type unreachable struct{}

func (unreachable) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("no route to host")
}

// A caller with the controller's policy and nothing more: what doctor may not look at
// is said, and nothing fails.
func TestDoctorWithTheControllersPolicyFailsNothing(t *testing.T) {
	granted := policyOf(t, "controller-policy.json")
	s := doctorWorld(func(c *stub.Config) {
		c.Policy = func(_ stub.Principal, action, resource string) bool { return granted.Allows(action, resource) }
	})
	text := linesOf(Diagnose(t.Context(), doctorConfig(s)))
	for _, want := range []string{
		"warn AWS permissions: not known of what changes something, which is not tried",
		"ecs:RegisterTaskDefinition, ecs:DeregisterTaskDefinition, ecs:DeleteTaskDefinitions, ecs:RunTask, ",
		"warn not looked at: the event queue (sqs:GetQueueAttributes), the bucket's encryption " +
			"(s3:GetEncryptionConfiguration), " +
			"the bucket's block of public access (s3:GetBucketPublicAccessBlock), the bucket's lifecycle " +
			"(s3:GetLifecycleConfiguration), execution role and task role and role of volumes (iam:GetRole), " +
			"what execution role and task role may do (iam:SimulatePrincipalPolicy), subnets (ec2:DescribeSubnets), " +
			"security groups (ec2:DescribeSecurityGroups), the vCPU quota (servicequotas:GetServiceQuota); burstlet does " +
			"not need these rights",
		"ok AWS permissions: all 10 that read are there",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "FAIL") {
		t.Error(text)
	}
}
