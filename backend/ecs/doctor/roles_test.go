package doctor

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/burstlet/burstlet/backend"
)

func TestInWhichRepositoryATaskImageIs(t *testing.T) {
	d := &doctor{}
	d.cfg.Region = "eu-west-1"
	const host = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
	for image, want := range map[string]string{
		host + "/team/task:1":            "arn:aws:ecr:us-east-1:123456789012:repository/team/task",
		host + "/task":                   "arn:aws:ecr:us-east-1:123456789012:repository/task",
		host + "/task:1@sha256:" + "abc": "arn:aws:ecr:us-east-1:123456789012:repository/task",
		"123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/task:1":   "arn:aws-cn:ecr:cn-north-1:123456789012:repository/task",
		"123456789012.dkr.ecr-fips.us-east-1.amazonaws.com/task:1":  "arn:aws:ecr:us-east-1:123456789012:repository/task",
		"123456789012.dkr.ecr.us-gov-west-1.amazonaws.com/task:1":   "arn:aws-us-gov:ecr:us-gov-west-1:123456789012:repository/task",
		"public.ecr.aws/burstlet/task:1":                            "",
		"registry.example/dkr.ecr.us-east-1.amazonaws.com/task:1":   "",
		"123456789012.dkr.ecr.us-east-1.amazonaws.com.evil.io/task": "",
		host: "",
		"":   "",
	} {
		if got, ok := d.privateRepository(image); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v, want %q", image, got, ok, want)
		}
	}
}

// The rights that doctor looks for follow what is configured.
func TestWhatTasksOfAConfigurationNeed(t *testing.T) {
	type change = func(*Config)
	full := func(c *Config) {
		c.Region, c.NodeIdentity, c.Cluster = "eu-west-1", "node", "c"
		c.TaskImage, c.LogGroup, c.EventQueueURL = "burstlet/task:1", "/pods", "https://sqs.eu-west-1.amazonaws.com/1/events"
		c.TaskRoleARN, c.ExecutionRoleARN = "arn:aws:iam::1:role/task", "arn:aws:iam::1:role/execution"
	}
	const sessions = "ssmmessages:CreateControlChannel ssmmessages:CreateDataChannel ssmmessages:OpenControlChannel " +
		"ssmmessages:OpenDataChannel"
	for name, tc := range map[string]struct {
		set              change
		tasks, execution string
		// lost are actions of the controller that are no longer needed, or needed too.
		lost, more string
	}{
		"everything": {
			set: func(*Config) {}, tasks: "secretsmanager:GetSecretValue sqs:SendMessage " + sessions,
			execution: "logs:CreateLogStream logs:PutLogEvents secretsmanager:GetSecretValue",
		},
		"no task image": {
			set:       func(c *Config) { c.TaskImage = "" },
			execution: "logs:CreateLogStream logs:PutLogEvents secretsmanager:GetSecretValue", lost: "ecs:ExecuteCommand",
		},
		"an image in ECR": {
			set:   func(c *Config) { c.TaskImage = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/task:1" },
			tasks: "secretsmanager:GetSecretValue sqs:SendMessage " + sessions,
			execution: "ecr:GetAuthorizationToken ecr:BatchCheckLayerAvailability ecr:BatchGetImage " +
				"ecr:GetDownloadUrlForLayer " +
				"logs:CreateLogStream logs:PutLogEvents secretsmanager:GetSecretValue",
		},
		"no sessions": {
			set: func(c *Config) { c.NoExec = true }, tasks: "secretsmanager:GetSecretValue sqs:SendMessage",
			execution: "logs:CreateLogStream logs:PutLogEvents secretsmanager:GetSecretValue", lost: "ecs:ExecuteCommand",
		},
		"no logs, no queue": {
			set: func(c *Config) { c.LogGroup, c.EventQueueURL = "", "" }, tasks: "secretsmanager:GetSecretValue " + sessions,
			execution: "secretsmanager:GetSecretValue", lost: "logs:GetLogEvents sqs:DeleteMessage sqs:ReceiveMessage",
		},
		"a bucket": {
			set: func(c *Config) { c.PayloadBucket = "b" }, tasks: "s3:GetObject sqs:SendMessage " + sessions,
			execution: "logs:CreateLogStream logs:PutLogEvents secretsmanager:GetSecretValue",
			more:      "s3:DeleteObject s3:GetObject s3:PutObject",
		},
		"no roles": {
			set:       func(c *Config) { c.TaskRoleARN, c.ExecutionRoleARN = "", "" },
			tasks:     "secretsmanager:GetSecretValue sqs:SendMessage " + sessions,
			execution: "logs:CreateLogStream logs:PutLogEvents secretsmanager:GetSecretValue",
			lost:      "ecs:ExecuteCommand iam:PassRole",
		},
	} {
		d := &doctor{account: "1", cluster: "arn:aws:ecs:eu-west-1:1:cluster/c"}
		full(&d.cfg)
		before := actionsOf(d.wanted())
		tc.set(&d.cfg)
		after := actionsOf(d.wanted())
		if got := strings.Join(actionsOf(d.wantedOfTasks()), " "); got != tc.tasks {
			t.Errorf("%s: tasks need %s, want %s", name, got, tc.tasks)
		}
		if got := strings.Join(actionsOf(d.wantedOfExecution()), " "); got != tc.execution {
			t.Errorf("%s: their start needs %s, want %s", name, got, tc.execution)
		}
		if lost := without(before, after); lost != tc.lost {
			t.Errorf("%s: no longer needed: %s, want %s", name, lost, tc.lost)
		}
		if more := without(after, before); more != tc.more {
			t.Errorf("%s: needed too: %s, want %s", name, more, tc.more)
		}
	}
}

func actionsOf(permissions []permission) (out []string) {
	for _, p := range permissions {
		out = append(out, p.action)
	}
	return out
}

// without are those of a that are not in b.
func without(a, b []string) string {
	left := map[string]bool{}
	for _, x := range a {
		if !slices.Contains(b, x) {
			left[x] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(left)), " ")
}

// IAM's simulation decides about the caller's role, not its session, and what it does not
// decide is not taken for a right.
func TestWhatIAMSimulates(t *testing.T) {
	const role = "<R><GetRoleResult><Role><Arn>arn:aws:iam::1:role/team/r</Arn></Role></GetRoleResult></R>"
	for caller, want := range map[string]string{
		"arn:aws:iam::1:user/u":                  "arn:aws:iam::1:user/u",
		"arn:aws:sts::1:assumed-role/r/session":  "arn:aws:iam::1:role/team/r",
		"arn:aws:sts::1:federated-user/f":        "arn:aws:sts::1:federated-user/f",
		"arn:aws-cn:sts::1:assumed-role/r/i-123": "arn:aws:iam::1:role/team/r",
	} {
		a := &answers{status: 200, body: role}
		d := &doctor{caller: caller, query: asking(a)}
		if got, err := d.principal(t.Context()); err != nil || got != want {
			t.Errorf("%s: %s, %v", caller, got, err)
		}
		if len(a.asked) > 0 && !strings.Contains(a.asked[0], "RoleName=r&") {
			t.Errorf("%s: asked %s", caller, a.asked[0])
		}
	}
	reply := func(decisions ...string) string {
		var b strings.Builder
		for _, d := range decisions {
			b.WriteString("<member><EvalDecision>" + d + "</EvalDecision></member>")
		}
		return "<SimulatePrincipalPolicyResponse><SimulatePrincipalPolicyResult><EvaluationResults>" + b.String() +
			"</EvaluationResults></SimulatePrincipalPolicyResult></SimulatePrincipalPolicyResponse>"
	}
	for body, want := range map[string]string{
		reply("allowed"):                 "allowed",
		reply("implicitDeny"):            "denied",
		reply("explicitDeny"):            "denied",
		reply("allowed", "implicitDeny"): "denied",
		reply():                          "iam:SimulatePrincipalPolicy: no decision on ecs:RunTask",
		"<html/>": "iam:SimulatePrincipalPolicy: read the answer: expected element type " +
			"<SimulatePrincipalPolicyResponse> but have <html>",
	} {
		a := &answers{status: 200, body: body}
		d := &doctor{query: asking(a)}
		allowed, err := d.simulated(t.Context(), "arn", permission{
			action: "ecs:RunTask", resource: "*", context: map[string]string{"ecs:cluster": "c"},
		})
		got := map[bool]string{true: "allowed", false: "denied"}[allowed]
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
		_, sent, _ := strings.Cut(a.asked[0], " ")
		form, err := url.ParseQuery(sent)
		if err != nil || form.Get("ContextEntries.member.1.ContextKeyName") != "ecs:cluster" ||
			form.Get("ContextEntries.member.1.ContextKeyValues.member.1") != "c" || form.Get("PolicySourceArn") != "arn" {
			t.Errorf("asked %v, %v", form, err)
		}
	}
}

func TestWhatSubnetsQuotasAndErrorsComeTo(t *testing.T) {
	d := &doctor{}
	one := func(judge func()) string {
		d.found = nil
		judge()
		if len(d.found) != 1 {
			t.Fatalf("found %+v", d.found)
		}
		return verdict(d.found[0]) + d.found[0].Detail
	}
	for want, subnets := range map[string][]awsSubnet{
		"ok s-1 (a, 10 free addresses) of v":                              {{"s-1", "v", "a", 10}},
		"warn s-1 (a, 99 free addresses), s-2 (b, 9 free addresses) of v": {{"s-1", "v", "a", 99}, {"s-2", "v", "b", 9}},
		"bad s-1 is in v, s-2 in w":                                       {{"s-1", "v", "a", 99}, {"s-2", "w", "b", 99}},
	} {
		if got := one(func() { d.judgeSubnets(subnets) }); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for want, body := range map[string]string{
		"ok sg-1":                                "<R><securityGroupInfo><item><groupId>sg-1</groupId><vpcId>v</vpcId></item></securityGroupInfo></R>",
		"bad sg-1 is in w, the subnets are in v": "<R><securityGroupInfo><item><groupId>sg-1</groupId><vpcId>w</vpcId></item></securityGroupInfo></R>",
		"bad InvalidGroup.NotFound: The group is unknown": "",
	} {
		status := 200
		if body == "" {
			status, body = 400, "<R><Errors><Error><Code>InvalidGroup.NotFound</Code><Message>The group is "+
				"unknown</Message></Error></Errors></R>"
		}
		groups := &doctor{query: asking(&answers{status: status, body: body})}
		groups.cfg.SecurityGroups = []string{"sg-1"}
		groups.securityGroups(t.Context(), "v")
		if len(groups.found) != 1 || verdict(groups.found[0])+groups.found[0].Detail != want {
			t.Errorf("%+v, want %s", groups.found, want)
		}
	}
}

func verdict(f backend.Finding) string {
	switch {
	case f.OK:
		return "ok "
	case f.Warn:
		return "warn "
	}
	return "bad "
}
