package doctor

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
)

// Quotas of Fargate (Service Quotas, AWS Fargate).
const (
	quotaOnDemand = "L-3032A538" // Fargate On-Demand vCPU resource count
	quotaSpot     = "L-36FBB829" // Fargate Spot vCPU resource count
)

// fewAddresses is when a subnet is nearly full: each task takes one.
const fewAddresses = 10

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
	d.securityGroups(ctx, d.subnets(ctx))
}

// securityGroups asks for the groups, which must be of the subnets' VPC; empty: not known.
func (d *doctor) securityGroups(ctx context.Context, vpc string) {
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

// prices says whose they are where they are not the region's.
func (d *doctor) prices() {
	rates := d.cfg.Rates.OrPublished(d.cfg.Region)
	if !rates.Foreign(d.cfg.Region) {
		return
	}
	detail := fmt.Sprintf(
		"those of %s, and this node is in %s: sizes are chosen and costs told by them", rates.List(), d.cfg.Region,
	)
	d.add(backend.Doubtful(
		"prices", detail, "set backend.ecs.prices to those of "+d.cfg.Region+" (AWS Fargate Pricing)",
	))
}
