package ecs

import "slices"

// checkContainers applies the rules of ContainerDefinition and returns an order
// in which dependencies come first.
func checkContainers(cs []containerDefinition, cpu, memory int, hasRole bool) ([]int, *apiError) {
	if len(cs) == 0 {
		return nil, clientError("Container list cannot be empty.")
	}
	// ECS service quotas: "Containers per task definition".
	if len(cs) > maxContainers {
		return nil, clientError("Too many containers: %d, the most is %d.", len(cs), maxContainers)
	}
	index := map[string]int{}
	essential := false
	var sumCPU, sumMemory int
	for i := range cs {
		c := &cs[i]
		if e := c.check(hasRole); e != nil {
			return nil, e
		}
		if _, twice := index[*c.Name]; twice {
			return nil, clientError("Container name %q is there twice.", *c.Name)
		}
		index[*c.Name] = i
		essential = essential || c.isEssential()
		sumCPU += int(value(c.CPU))
		if c.MemoryReservation != nil {
			sumMemory += int(*c.MemoryReservation)
		} else {
			sumMemory += int(value(c.Memory))
		}
	}
	// ECS API, ContainerDefinition: essential: "All tasks must have at least one
	// essential container".
	if !essential {
		return nil, clientError("A task definition must have at least one essential container.")
	}
	// ECS API, ContainerDefinition: cpu, memory: the sum is bounded by the task's.
	// That equal is accepted is undocumented.
	if sumCPU > cpu {
		return nil, clientError("The total cpu of the containers %d exceeds the task's %d.", sumCPU, cpu)
	}
	if sumMemory > memory {
		return nil, clientError("The total memory of the containers %d exceeds the task's %d.", sumMemory, memory)
	}
	return dependencyOrder(cs, index)
}

func (c *containerDefinition) isEssential() bool { return c.Essential == nil || *c.Essential }

// check applies the rules that concern one container.
func (c *containerDefinition) check(hasRole bool) *apiError {
	if !namePattern.MatchString(value(c.Name)) {
		return clientError("Container.name contains invalid characters or is empty.")
	}
	if img := value(c.Image); img == "" || len(img) > maxImage {
		return clientError("Container.image should not be null or empty or too long.")
	}
	if e := c.checkUnsupported(); e != nil {
		return e
	}
	if e := c.checkNumbers(); e != nil {
		return e
	}
	if c.User != nil && !userPattern.MatchString(*c.User) {
		return clientError("Invalid user %q.", *c.User)
	}
	for _, kv := range c.Environment {
		if value(kv.Name) == "" {
			return clientError("Environment variable without a name.")
		}
	}
	if e := checkPorts(c.PortMappings); e != nil {
		return e
	}
	return c.LogConfiguration.check(hasRole)
}

// checkUnsupported is ECS developer guide, "Task definition differences for
// Fargate": parameters that are not valid in Fargate tasks.
func (c *containerDefinition) checkUnsupported() *apiError {
	bad := map[string]bool{
		"privileged": c.Privileged != nil, "links": len(c.Links) > 0, "hostname": c.Hostname != nil,
		"extraHosts": len(c.ExtraHosts) > 0, "dnsServers": len(c.DNSServers) > 0,
		"dnsSearchDomains": len(c.DNSSearchDomains) > 0, "dockerSecurityOptions": len(c.DockerSecurityOptions) > 0,
		"disableNetworking": c.DisableNetworking != nil,
	}
	if lp := c.LinuxParameters; lp != nil {
		bad["devices"] = len(lp.Devices) > 0
		bad["sharedMemorySize"] = lp.SharedMemorySize != nil
		bad["maxSwap"] = lp.MaxSwap != nil
		bad["swappiness"] = lp.Swappiness != nil
		// ECS API, KernelCapabilities: "you can only add SYS_PTRACE".
		bad["capabilities.add"] = lp.Capabilities != nil && slices.ContainsFunc(lp.Capabilities.Add, func(s string) bool { return s != "SYS_PTRACE" })
	}
	bad["mountPoints, volumesFrom, systemControls (this server has none)"] =
		len(c.MountPoints)+len(c.VolumesFrom)+len(c.SystemControls) > 0
	for name, is := range bad {
		if is {
			return clientError("The following parameter is not supported for Fargate: %s.", name)
		}
	}
	return nil
}

// checkNumbers is ECS API, ContainerDefinition: cpu, memory, memoryReservation,
// startTimeout, stopTimeout.
func (c *containerDefinition) checkNumbers() *apiError {
	if value(c.CPU) < 0 {
		return clientError("Invalid cpu.")
	}
	for _, m := range []*int32{c.Memory, c.MemoryReservation} {
		if m != nil && *m < minMemory {
			return clientError("Invalid setting for container %q: memory must be at least %d MiB.", *c.Name, minMemory)
		}
	}
	if c.Memory != nil && c.MemoryReservation != nil && *c.Memory <= *c.MemoryReservation {
		return clientError("Invalid setting for container %q: memory must be greater than memoryReservation.", *c.Name)
	}
	for _, t := range []*int32{c.StartTimeout, c.StopTimeout} {
		if t != nil && (*t < minTimeout || *t > maxTimeout) {
			return clientError("Timeouts must be between %d and %d seconds.", minTimeout, maxTimeout)
		}
	}
	return nil
}

// checkPorts is ECS API, PortMapping: under awsvpc hostPort is blank or the same,
// the protocol tcp or udp, and a port stands there once.
func checkPorts(ps []portMapping) *apiError {
	seen := map[int32]bool{}
	for _, p := range ps {
		port := value(p.ContainerPort)
		if port < 1 || port > 65535 || seen[port] {
			return clientError("Invalid or repeated containerPort %d.", port)
		}
		seen[port] = true
		if p.HostPort != nil && *p.HostPort != 0 && *p.HostPort != port {
			return clientError("When networkMode=awsvpc, the host ports and container ports in port mappings must match.")
		}
		if pr := value(p.Protocol); pr != "" && pr != "tcp" && pr != "udp" {
			return clientError("Invalid protocol %q.", pr)
		}
	}
	return nil
}

// check is ECS developer guide, "Using the awslogs log driver": the options that
// Fargate requires, and the execution role that awslogs needs.
func (l *logConfiguration) check(hasRole bool) *apiError {
	if l == nil {
		return nil
	}
	if value(l.LogDriver) != "awslogs" {
		return clientError("Log driver %q is not supported here.", value(l.LogDriver))
	}
	for _, o := range []string{"awslogs-group", "awslogs-region", "awslogs-stream-prefix"} {
		if l.Options[o] == "" {
			return clientError("Log driver awslogs requires options: %s.", o)
		}
	}
	if !hasRole {
		return clientError("Fargate requires task definition to have execution role ARN to support log driver awslogs.")
	}
	return nil
}

// dependencyOrder is ECS API, ContainerDependency: targets exist, no cycle, and
// COMPLETE and SUCCESS not on an essential container.
func dependencyOrder(cs []containerDefinition, index map[string]int) ([]int, *apiError) {
	for _, c := range cs {
		for _, d := range c.DependsOn {
			target, ok := index[value(d.ContainerName)]
			if !ok {
				return nil, clientError("Container %q depends on a container that is not there: %q.", *c.Name, value(d.ContainerName))
			}
			switch cond := value(d.Condition); {
			case cond == "START":
			case cond != "COMPLETE" && cond != "SUCCESS":
				return nil, clientError("Invalid or unsupported condition %q.", cond)
			case cs[target].isEssential():
				return nil, clientError("A container with a %s dependency cannot be essential: %q.", cond, *cs[target].Name)
			}
		}
	}
	order := make([]int, 0, len(cs))
	placed := make([]bool, len(cs))
	for range cs {
		for i, c := range cs {
			ready := !placed[i] && !slices.ContainsFunc(c.DependsOn, func(d dependency) bool {
				return !placed[index[*d.ContainerName]]
			})
			if ready {
				placed[i] = true
				order = append(order, i)
			}
		}
	}
	if len(order) < len(cs) {
		return nil, clientError("Container dependencies have a cycle.")
	}
	return order, nil
}
