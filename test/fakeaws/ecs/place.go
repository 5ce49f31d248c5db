package ecs

import (
	"slices"
	"strings"
)

// place is where a task runs and how it is paid.
type place struct {
	provider, subnet, zone string
	// byStrategy is true if the request named capacity providers.
	byStrategy bool
}

// shortage is a want of capacity in a subnet and of a capacity provider; "" is any.
type shortage struct{ subnet, provider string }

// Reasons of refusals. The first is ECS developer guide, "API failure reasons";
// the second Fargate's "On-Demand vCPU resource count" quota.
const (
	noCapacity   = "Capacity is unavailable at this time. Please try again later or in a different availability zone"
	quotaReached = "You've reached the limit on the number of vCPUs you can run concurrently"
)

// Limits of a strategy (ECS API, RunTask: capacityProviderStrategy, and
// CapacityProviderStrategyItem).
const (
	maxProviders = 20
	maxWeight    = 1000
	maxBase      = 100000
)

// Shortage starts or ends a want of capacity; "" is any subnet or provider.
func (s *Server) Shortage(subnet, provider string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !on {
		delete(s.shortages, shortage{subnet, provider})
		return
	}
	s.shortages[shortage{subnet, provider}] = true
}

// SetQuota changes Config's VCPU and SpotVCPU.
func (s *Server) SetQuota(vcpu, spotVCPU float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.VCPU, s.cfg.SpotVCPU = vcpu, spotVCPU
}

// checkProviders is ECS API, RunTask: launchType and capacityProviderStrategy.
func (s *Server) checkProviders(in *runInput) *apiError {
	lt, items := value(in.LaunchType), in.CapacityProviders
	switch {
	case lt != "" && len(items) > 0:
		return invalidParameter(
			"Specifying both a launch type and capacity provider strategy is not supported. Remove one and try again.",
		)
	case lt != "" && lt != "FARGATE", lt == "" && len(items) == 0:
		// The cluster has no default strategy and no instances.
		return invalidParameter("No Container Instances were found in your cluster.")
	case len(items) > maxProviders:
		return invalidParameter("capacityProviderStrategy can have at most %d items.", maxProviders)
	}
	return s.checkItems(items)
}

// checkItems is ECS API, CapacityProviderStrategyItem.
func (s *Server) checkItems(items []providerItem) *apiError {
	weights, bases := 0, 0
	seen := map[string]bool{}
	for _, it := range items {
		name := value(it.CapacityProvider)
		if !slices.Contains(s.cfg.CapacityProviders, name) {
			return invalidParameter(
				"The specified capacity provider '%s' is not associated with the cluster. Associate the capacity provider with "+
					"the cluster and try again.",
				name,
			)
		}
		if seen[name] || it.Weight < 0 || it.Weight > maxWeight || it.Base < 0 || it.Base > maxBase {
			return invalidParameter("Invalid or repeated item of capacityProviderStrategy: %q.", name)
		}
		seen[name] = true
		weights += int(it.Weight)
		bases += int(min(it.Base, 1))
	}
	if len(items) > 0 && (weights == 0 || bases > 1) {
		return invalidParameter("capacityProviderStrategy must have a weight above 0, and a base on one item only.")
	}
	return nil
}

// provider is the capacity provider of the next task: the one with a base, else
// the one with the largest weight, in turns among equals. A strategy's tasks are
// spread over calls in a way that is undocumented.
func (s *Server) provider(in *runInput) string {
	best, n := "", 0
	var equals []string
	for _, it := range in.CapacityProviders {
		w := int(it.Weight)
		if it.Base > 0 {
			w += maxWeight + 1
		}
		if w > n {
			n, equals = w, nil
		}
		if w == n && w > 0 {
			equals = append(equals, *it.CapacityProvider)
		}
	}
	if best = onDemand; len(equals) > 0 {
		best = equals[s.launches%len(equals)]
	}
	return best
}

// checkNetwork is ECS API, AwsVpcConfiguration.
func (s *Server) checkNetwork(n *networkConfiguration) *apiError {
	if n == nil || n.Awsvpc == nil {
		return invalidParameter("Network Configuration must be provided when networkMode 'awsvpc' is specified.")
	}
	if c := len(n.Awsvpc.Subnets); c < 1 || c > maxSubnets {
		return invalidParameter("subnets must have 1 to %d items.", maxSubnets)
	}
	if len(n.Awsvpc.SecurityGroups) > maxSecurityGroups {
		return invalidParameter("securityGroups can have at most %d items.", maxSecurityGroups)
	}
	if e := s.checkSubnets(n.Awsvpc.Subnets); e != nil {
		return e
	}
	for _, sg := range n.Awsvpc.SecurityGroups {
		if !strings.HasPrefix(sg, "sg-") || s.cfg.SecurityGroups != nil && !slices.Contains(s.cfg.SecurityGroups, sg) {
			return invalidParameter(
				"Error retrieving security group information for [%s]: The security group ID '%s' does not exist (ErrorCode: "+
					"InvalidGroup.NotFound)",
				sg, sg,
			)
		}
	}
	if a := value(n.Awsvpc.AssignPublicIP); a != "" && a != "ENABLED" && a != "DISABLED" {
		return invalidParameter("Invalid assignPublicIp %q.", a)
	}
	return nil
}

// checkSubnets wants subnets that exist, all of one VPC.
func (s *Server) checkSubnets(ids []string) *apiError {
	vpc := ""
	for _, id := range ids {
		sn, ok := s.subnet(id)
		if !ok {
			return invalidParameter(
				"Error retrieving subnet information for [%s]: The subnet ID '%s' does not exist (ErrorCode: "+
					"InvalidSubnetID.NotFound)",
				id, id,
			)
		}
		if vpc != "" && sn.VPC != "" && vpc != sn.VPC {
			return invalidParameter("subnets must be in the same VPC.")
		}
		vpc = sn.VPC
	}
	return nil
}

// subnet finds a subnet that exists.
func (s *Server) subnet(id string) (Subnet, bool) {
	if s.cfg.Subnets == nil {
		return Subnet{ID: id, Zone: s.cfg.Region + "a"}, strings.HasPrefix(id, "subnet-")
	}
	i := slices.IndexFunc(s.cfg.Subnets, func(sn Subnet) bool { return sn.ID == id })
	if i < 0 {
		return Subnet{}, false
	}
	sn := s.cfg.Subnets[i]
	if sn.Zone == "" {
		sn.Zone = s.cfg.Region + "a"
	}
	return sn, true
}

// room finds a place for the tasks of a request, or refuses them: for want of
// capacity with an answer that has failures[], by quota and by launch rate with an
// error. The subnet is one of those given, in turns; that AWS does not try another
// when there is no capacity in it is undocumented.
func (s *Server) room(in *runInput, d *definition, ov overrides, c *request) (place, any, *apiError) {
	p := place{provider: s.provider(in), byStrategy: len(in.CapacityProviders) > 0}
	subnets := in.NetworkConfiguration.Awsvpc.Subnets
	sn, _ := s.subnet(subnets[s.launches%len(subnets)]) // checked
	p.subnet, p.zone = sn.ID, sn.Zone
	s.launches++
	for _, sh := range []shortage{{p.subnet, p.provider}, {"", p.provider}, {p.subnet, ""}, {"", ""}} {
		if s.shortages[sh] {
			return p, refused(noCapacity), nil
		}
	}
	cpu, _, _ := checkSize(first(ov.CPU, d.CPU), first(ov.Memory, d.Memory)) // checked
	count := int(or(in.Count, 1))
	if q := s.quota(p.provider); q > 0 && s.running(p.provider)+float64(count*cpu)/1024 > q {
		// Whether it is an exception or a failure is undocumented.
		if s.cfg.QuotaAsFailure {
			return p, refused(quotaReached), nil
		}
		return p, nil, clientError("%s", quotaReached)
	}
	return p, nil, s.draw([]string{launchRate + p.provider}, float64(count), c.action, c.now)
}

func (s *Server) quota(provider string) float64 {
	if provider == spot {
		return s.cfg.SpotVCPU
	}
	return s.cfg.VCPU
}

// running are the vCPUs of a provider's tasks that have not stopped.
func (s *Server) running(provider string) float64 {
	n := 0
	for _, t := range s.tasks {
		if t.place.provider == provider && s.age(t) < t.life.stopped {
			cpu, _ := t.size()
			n += cpu
		}
	}
	return float64(n) / 1024
}

// size is a task's cpu units and MiB.
func (t *task) size() (cpu, memory int) {
	cpu, memory, _ = checkSize(first(t.ov.CPU, t.def.CPU), first(t.ov.Memory, t.def.Memory)) // checked at launch
	return cpu, memory
}
