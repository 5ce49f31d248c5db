package ecs

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// asked is the answer to a call of a Query API, signed for a service and a region.
func asked(t *testing.T, s *Server, service, region string, form url.Values) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, Endpoint+"/", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentTypeQuery+"; charset=utf-8")
	req.Header.Set(
		"Authorization",
		"AWS4-HMAC-SHA256 Credential=AKID/20260101/"+region+"/"+service+"/aws4_request, SignedHeaders=host, Signature=0",
	)
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestQueryAPIsTellWhatThereIs(t *testing.T) {
	s := New(Config{
		Region: "eu-central-1", Subnets: []Subnet{{ID: "subnet-1", VPC: "vpc-9", Zone: "eu-central-1b"}},
		SecurityGroups: []string{"sg-1"},
		Roles: []Role{{
			ARN: "arn:aws:iam::123456789012:role/team/task", Trusts: []string{"ecs-tasks.amazonaws.com"},
		}},
	})
	s.Deny(Denial{Action: "ecs:RunTask"})
	for name, tc := range map[string]struct {
		service, region string
		form            url.Values
		status          int
		want            string
	}{
		"caller": {
			"sts", "eu-central-1",
			url.Values{"Action": {"GetCallerIdentity"}},
			200,
			"<Arn>arn:aws:sts::123456789012:assumed-role/burstlet/caller</Arn>",
		},
		"IAM is global": {
			"iam", "us-east-1",
			url.Values{"Action": {"GetRole"}, "RoleName": {"task"}},
			200,
			"<Arn>arn:aws:iam::123456789012:role/team/task</Arn><AssumeRolePolicyDocument>%7B%22",
		},
		"another region": {
			"iam", "eu-central-1",
			url.Values{"Action": {"GetRole"}, "RoleName": {"task"}},
			403,
			"<ErrorResponse><Error><Code>InvalidSignatureException</Code>",
		},
		"no role": {
			"iam", "us-east-1", url.Values{"Action": {"GetRole"}, "RoleName": {"none"}}, 404, "<Code>NoSuchEntity</Code>",
		},
		"allowed": {
			"iam", "us-east-1", simulation("arn:aws:iam::123456789012:role/burstlet", "ecs:StopTask"), 200,
			"<EvalDecision>allowed</EvalDecision>",
		},
		"denied": {
			"iam", "us-east-1", simulation("arn:aws:iam::123456789012:role/burstlet", "ecs:RunTask"), 200,
			"<EvalDecision>implicitDeny</EvalDecision>",
		},
		"session": {
			"iam", "us-east-1", simulation("arn:aws:sts::123456789012:assumed-role/burstlet/caller", "ecs:RunTask"), 400,
			"<Code>InvalidInput</Code>",
		},
		"subnet": {
			"ec2", "eu-central-1",
			url.Values{"Action": {"DescribeSubnets"}, "SubnetId.1": {"subnet-1"}},
			200,
			"<subnetId>subnet-1</subnetId><vpcId>vpc-9</vpcId><availabilityZone>eu-central-1b<",
		},
		"no subnet": {
			"ec2", "eu-central-1",
			url.Values{"Action": {"DescribeSubnets"}, "SubnetId.1": {"subnet-2"}},
			400,
			"<Response><Errors><Error><Code>InvalidSubnetID.NotFound</Code>",
		},
		"group": {
			"ec2", "eu-central-1",
			url.Values{"Action": {"DescribeSecurityGroups"}, "GroupId.1": {"sg-1"}},
			200,
			"<groupId>sg-1</groupId><vpcId>vpc-9</vpcId>",
		},
		"unknown": {
			"ec2", "eu-central-1", url.Values{"Action": {"TerminateInstances"}}, 400, "<Code>InvalidAction</Code>",
		},
		"no group of that": {
			"ec2", "eu-central-1",
			url.Values{"Action": {"DescribeSecurityGroups"}, "GroupId.1": {"sg-2"}},
			400,
			"<Code>InvalidGroup.NotFound</Code>",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if status, body := asked(t, s, tc.service, tc.region, tc.form); status != tc.status ||
				!strings.Contains(body, tc.want) {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	s.Deny(Denial{Action: "ec2:*"})
	if status, body := asked(t, s, "ec2", "eu-central-1", url.Values{"Action": {"DescribeSubnets"}}); status != 403 ||
		!strings.Contains(body, "<Code>UnauthorizedOperation</Code>") {
		t.Errorf("%d %s", status, body)
	}
}

func simulation(principal, action string) url.Values {
	return url.Values{
		"Action": {"SimulatePrincipalPolicy"}, "PolicySourceArn": {principal}, "ActionNames.member.1": {action},
		"ResourceArns.member.1": {"*"},
	}
}
