package doctor

import (
	"net/url"
	"strings"
	"testing"
)

// allowing is a trust policy with one statement for tasks, or with more of it.
func allowing(more string) string {
	return `{"Statement":[{"Effect":"Allow","Action":"sts:AssumeRole",` +
		`"Principal":{"Service":"ecs-tasks.amazonaws.com"}` + more + `}]}`
}

func TestWhichTrustPoliciesLetECSTakeARole(t *testing.T) {
	const arn = "arn:aws:iam::123456789012:role/execution"
	const untrusted = arn + " does not trust ecs-tasks.amazonaws.com"
	d := &doctor{account: "123456789012", cluster: "arn:aws:ecs:eu-west-1:123456789012:cluster/default"}
	for name, tc := range map[string]struct{ policy, want string }{
		"plain": {policy: allowing("")},
		"one statement without a list": {
			policy: `{"Statement":{"Effect":"Allow","Action":"sts:AssumeRole","Principal":{"Service":"ecs-tasks.amazonaws.com"}}}`,
		},
		"several services": {policy: strings.Replace(allowing(""), `"ecs-tasks.amazonaws.com"`,
			`["ec2.amazonaws.com","ecs-tasks.amazonaws.com"]`, 1)},
		"anybody": {policy: strings.Replace(allowing(""), `{"Service":"ecs-tasks.amazonaws.com"}`, `"*"`, 1)},
		"any principal of AWS": {
			policy: strings.Replace(allowing(""), `{"Service":"ecs-tasks.amazonaws.com"}`, `{"AWS":["*"]}`, 1),
		},
		"every action": {policy: strings.Replace(allowing(""), "sts:AssumeRole", "sts:*", 1)},
		"some actions": {policy: strings.Replace(allowing(""), "sts:AssumeRole", "sts:Assume*", 1)},
		"another case": {policy: strings.Replace(allowing(""), "sts:AssumeRole", "STS:assumerole", 1)},
		"another action": {
			policy: strings.Replace(allowing(""), "sts:AssumeRole", "sts:AssumeRoleWithSAML", 1), want: untrusted,
		},
		"another service": {policy: strings.Replace(allowing(""), "ecs-tasks", "ec2", 1), want: untrusted},
		"an account":      {policy: strings.Replace(allowing(""), "Service", "AWS", 1), want: untrusted},
		"nobody":          {policy: `{"Statement":[]}`, want: untrusted},
		"this account":    {policy: allowing(`,"Condition":{"StringEquals":{"AWS:SourceAccount":"123456789012"}}`)},
		"another account": {
			policy: allowing(`,"Condition":{"StringEquals":{"aws:SourceAccount":["1","2"]}}`),
			want:   untrusted + " here: its condition is StringEquals aws:SourceAccount 1 or 2",
		},
		"where it is said": {
			policy: allowing(`,"Condition":{"StringEqualsIfExists":{"aws:SourceAccount":"1"}}`),
			want:   untrusted + " here: its condition is StringEquals aws:SourceAccount 1",
		},
		"two conditions": {
			policy: allowing(`,"Condition":{"StringLike":{"aws:SourceAccount":"9*"},` +
				`"ArnLike":{"aws:SourceArn":"arn:aws:ecs:us-east-1:*"}}`),
			want: untrusted + " here: its condition is ArnLike aws:SourceArn arn:aws:ecs:us-east-1:*",
		},
		"tasks of this region": {
			policy: allowing(`,"Condition":{"ArnLike":{"aws:SourceArn":"arn:aws:ecs:eu-west-1:123456789012:*"}}`),
		},
		"a condition that is not known": {policy: allowing(`,"Condition":{"StringEquals":{"aws:PrincipalOrgID":"o-1"}}`)},
		"an operator that is not known": {policy: allowing(`,"Condition":{"StringNotEquals":{"aws:SourceAccount":"1"}}`)},
		"taken back": {
			policy: strings.Replace(allowing(""), "}]}",
				`},{"Effect":"Deny","Action":"*","Principal":{"Service":"ecs-tasks.amazonaws.com"}}]}`, 1),
			want: arn + " refuses ecs-tasks.amazonaws.com",
		},
		"taken back from others": {
			policy: strings.Replace(allowing(""), "}]}", `},{"Effect":"Deny","Action":"sts:AssumeRole","Principal":"*",`+
				`"Condition":{"StringEquals":{"aws:SourceAccount":"1"}}}]}`, 1),
		},
		"one of two is enough": {
			policy: strings.Replace(allowing(`,"Condition":{"StringEquals":{"aws:SourceAccount":"1"}}`), "]}", ","+
				strings.TrimPrefix(allowing(""), `{"Statement":[`), 1),
		},
		"no JSON": {policy: "x", want: "the trust policy of " + arn + " cannot be read: invalid character 'x'"},
		"no principal": {
			policy: strings.Replace(allowing(""), `{"Service":"ecs-tasks.amazonaws.com"}`, "7", 1), want: "cannot be read",
		},
	} {
		role := taskRole{what: "execution role", arn: arn, service: serviceTasks}
		f := d.trusted(role, url.QueryEscape(tc.policy))
		if tc.want == "" {
			tc.want = arn + " trusts ecs-tasks.amazonaws.com"
		}
		if good := strings.HasSuffix(tc.want, " trusts ecs-tasks.amazonaws.com"); f.OK != good ||
			!strings.Contains(f.Detail, tc.want) {
			t.Errorf("%s: %v %q, want %q", name, f.OK, f.Detail, tc.want)
		}
	}
	if f := d.trusted(taskRole{arn: arn, service: serviceTasks}, "%zz"); f.OK || !f.Warn || f.Advice == "" {
		t.Errorf("no escapes: %+v", f)
	}
}
