package doctor

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
)

// The services to which roles are passed (ECS developer guide, "IAM roles for Amazon
// ECS").
const (
	serviceTasks   = "ecs-tasks.amazonaws.com"
	serviceVolumes = "ecs.amazonaws.com"
)

// Quotas of Fargate (Service Quotas, AWS Fargate).
const (
	quotaOnDemand = "L-3032A538" // Fargate On-Demand vCPU resource count
	quotaSpot     = "L-36FBB829" // Fargate Spot vCPU resource count
)

// fewAddresses is when a subnet is nearly full: each task takes one.
const fewAddresses = 10

type awsRole struct {
	ARN string `xml:"GetRoleResult>Role>Arn"`
	// Trust is the policy, as a URL has it.
	Trust string `xml:"GetRoleResult>Role>AssumeRolePolicyDocument"`
}

// role finds a role by its name, without its path.
func (d *doctor) role(ctx context.Context, name string) (awsRole, error) {
	var out awsRole
	_, err := d.query.query(ctx, "iam", versionIAM, "GetRole", url.Values{"RoleName": {name}}, &out)
	return out, err
}

// roles asks whether the roles of tasks are there and trust ECS.
func (d *doctor) roles(ctx context.Context) {
	var denied []string
	for _, r := range []struct{ what, arn, service string }{
		{"execution role", d.cfg.ExecutionRoleARN, serviceTasks},
		{"task role", d.cfg.TaskRoleARN, serviceTasks},
		{"role of volumes", d.cfg.EBS.RoleARN, serviceVolumes},
	} {
		if r.arn == "" {
			continue
		}
		found, err := d.role(ctx, r.arn[strings.LastIndex(r.arn, "/")+1:])
		switch {
		case isDeniedCall(err):
			denied = append(denied, r.what)
		case awscall.IsCode(err, "NoSuchEntity"):
			d.add(backend.Bad(r.what, "there is no "+r.arn, "make it as deploy/aws/README.md says"))
		case err != nil:
			d.add(backend.Doubtful(r.what, r.arn+": "+plainError(err), "check the network to IAM"))
		case found.ARN != r.arn:
			d.add(backend.Bad(r.what, "there is no "+r.arn+", but "+found.ARN, "set that ARN in backend.ecs"))
		default:
			d.add(trustFinding(r.what, r.arn, found.Trust, r.service))
			if r.arn == d.cfg.TaskRoleARN {
				d.reports(ctx, r.what)
			}
		}
	}
	if len(denied) > 0 {
		d.unchecked = append(d.unchecked, strings.Join(denied, " and ")+" (iam:GetRole)")
	}
}

// reports asks IAM whether tasks may tell the event queue which containers are ready.
func (d *doctor) reports(ctx context.Context, what string) {
	if d.cfg.EventQueueURL == "" || d.cfg.TaskImage == "" {
		return
	}
	p := permission{action: "sqs:SendMessage", resource: d.queueARN()}
	switch allowed, err := d.simulated(ctx, d.cfg.TaskRoleARN, p); {
	case err != nil:
		d.unchecked = append(d.unchecked, "whether the "+what+" may "+p.action+" (iam:SimulatePrincipalPolicy)")
	case !allowed:
		d.add(backend.Doubtful(what, d.cfg.TaskRoleARN+" may not "+p.action+" on "+p.resource+
			", so that readiness is seen when ECS shows it, up to half a minute late",
			awscall.TaskRolePolicy+" grants it (statement Readiness)"))
	}
}

// trustFinding says whether a role may be taken by a service.
func trustFinding(what, arn, trust, service string) backend.Finding {
	if policy, err := url.QueryUnescape(trust); err != nil || !strings.Contains(policy, `"`+service+`"`) {
		return backend.Bad(what, arn+" does not trust "+service,
			"let that service assume it, as deploy/aws/README.md says")
	}
	return backend.Good(what, arn+" trusts "+service)
}

type awsSubnet struct {
	ID   string `xml:"subnetId"`
	VPC  string `xml:"vpcId"`
	Zone string `xml:"availabilityZone"`
	Free int    `xml:"availableIpAddressCount"`
}

type awsGroup struct {
	ID  string `xml:"groupId"`
	VPC string `xml:"vpcId"`
}

// network asks for the subnets and the security groups.
func (d *doctor) network(ctx context.Context) {
	vpc := d.subnets(ctx)
	if len(d.cfg.SecurityGroups) == 0 {
		return
	}
	const what = "security groups"
	var out struct {
		Groups []awsGroup `xml:"securityGroupInfo>item"`
	}
	switch _, err := d.query.query(ctx, "ec2", versionEC2, "DescribeSecurityGroups",
		numbered("GroupId", d.cfg.SecurityGroups), &out); {
	case isDeniedCall(err):
		d.unchecked = append(d.unchecked, what+" (ec2:DescribeSecurityGroups)")
		return
	case err != nil:
		d.add(backend.Bad(what, plainError(err), "set backend.ecs.securityGroups to groups of the subnets' VPC"))
		return
	}
	for _, g := range out.Groups {
		if vpc != "" && g.VPC != vpc {
			d.add(backend.Bad(what, fmt.Sprintf("%s is in %s, the subnets are in %s", g.ID, g.VPC, vpc),
				"set backend.ecs.securityGroups to groups of the subnets' VPC"))
			return
		}
	}
	d.add(backend.Good(what, strings.Join(d.cfg.SecurityGroups, ", ")))
}

// subnets returns their VPC; empty where it is not known.
func (d *doctor) subnets(ctx context.Context) string {
	const what = "subnets"
	var out struct {
		Subnets []awsSubnet `xml:"subnetSet>item"`
	}
	switch _, err := d.query.query(ctx, "ec2", versionEC2, "DescribeSubnets", numbered("SubnetId", d.cfg.Subnets),
		&out); {
	case isDeniedCall(err):
		d.unchecked = append(d.unchecked, what+" (ec2:DescribeSubnets)")
		return ""
	case err != nil:
		d.add(backend.Bad(what, plainError(err), "set backend.ecs.subnets to subnets of "+d.cfg.Region))
		return ""
	case len(out.Subnets) == 0:
		d.add(backend.Bad(what, "EC2 knows none of them", "set backend.ecs.subnets to subnets of "+d.cfg.Region))
		return ""
	}
	return d.judgeSubnets(out.Subnets)
}

func (d *doctor) judgeSubnets(subnets []awsSubnet) string {
	const what = "subnets"
	vpc := subnets[0].VPC
	var texts, full []string
	for _, s := range subnets {
		if s.VPC != vpc {
			d.add(backend.Bad(what, fmt.Sprintf("%s is in %s, %s in %s", subnets[0].ID, vpc, s.ID, s.VPC),
				"set backend.ecs.subnets to subnets of one VPC"))
			return ""
		}
		texts = append(texts, fmt.Sprintf("%s (%s, %d free addresses)", s.ID, s.Zone, s.Free))
		if s.Free < fewAddresses {
			full = append(full, s.ID)
		}
	}
	detail := strings.Join(texts, ", ") + " of " + vpc
	if len(full) > 0 {
		d.add(backend.Doubtful(what, detail, "each pod takes an address: add larger subnets to backend.ecs.subnets"))
		return vpc
	}
	d.add(backend.Good(what, detail))
	return vpc
}

// numbered is a list as the Query protocol of EC2 has it.
func numbered(name string, values []string) url.Values {
	form := url.Values{}
	for i, v := range values {
		form.Set(fmt.Sprintf("%s.%d", name, i+1), v)
	}
	return form
}

// quotas compares the account's vCPUs with what the node offers.
func (d *doctor) quotas(ctx context.Context) {
	types := d.cfg.CapacityTypes
	if len(types) == 0 {
		types = []string{ecsconfig.CapacityOnDemand}
	}
	for _, q := range []struct{ kind, code, name string }{
		{ecsconfig.CapacityOnDemand, quotaOnDemand, "Fargate On-Demand vCPU resource count"},
		{ecsconfig.CapacitySpot, quotaSpot, "Fargate Spot vCPU resource count"},
	} {
		if !slices.Contains(types, q.kind) {
			continue
		}
		var out struct {
			Quota struct{ Value float64 }
		}
		err := d.query.json(ctx, "servicequotas", "ServiceQuotasV20190624.GetServiceQuota",
			map[string]string{"ServiceCode": "fargate", "QuotaCode": q.code}, &out)
		switch {
		case isDeniedCall(err):
			d.unchecked = append(d.unchecked, "the vCPU quota (servicequotas:GetServiceQuota)")
			return
		case err != nil:
			d.add(backend.Doubtful("vCPU quota", q.name+": "+plainError(err), "look under Service Quotas, AWS Fargate"))
		default:
			d.add(d.judgeQuota(q.name, out.Quota.Value))
		}
	}
}

// judgeQuota compares a quota of vCPUs with the node's capacity.
func (d *doctor) judgeQuota(name string, vcpus float64) backend.Finding {
	const what = "vCPU quota"
	detail := fmt.Sprintf("%s: %g", name, vcpus)
	if cpu, ok := d.cfg.Capacity[corev1.ResourceCPU]; ok && cpu.AsApproximateFloat64() > vcpus {
		return backend.Doubtful(what, detail+fmt.Sprintf(", and the node offers %s", cpu.String()),
			"ask for more under Service Quotas, AWS Fargate, or lower node.capacity.cpu: pods beyond it stay Pending")
	}
	return backend.Good(what, detail)
}
