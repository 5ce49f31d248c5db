package ecs

import (
	"slices"
	"strings"
)

// taskRules is what the rules of containers need of their task.
type taskRules struct {
	cpu, memory int
	hasRole     bool // an execution role
	volumes     map[string]bool
}

// checkContainers applies the rules of ContainerDefinition and returns an order
// in which dependencies come first.
func checkContainers(cs []containerDefinition, t taskRules) ([]int, *apiError) {
	if len(cs) == 0 {
		return nil, clientError("Container list cannot be empty.")
	}
	// ECS service quotas: "Containers per task definition".
	if len(cs) > maxContainers {
		return nil, clientError("Too many containers: %d, the most is %d.", len(cs), maxContainers)
	}
	index := map[string]int{}
	for i := range cs {
		c := &cs[i]
		if e := c.check(t); e != nil {
			return nil, e
		}
		if _, twice := index[*c.Name]; twice {
			return nil, clientError("Container name %q is there twice.", *c.Name)
		}
		index[*c.Name] = i
	}
	if e := checkSums(cs, t); e != nil {
		return nil, e
	}
	if e := checkVolumesFrom(cs, index); e != nil {
		return nil, e
	}
	if e := checkDependencies(cs, index); e != nil {
		return nil, e
	}
	return dependencyOrder(cs, index)
}

// checkSums applies the rules about all containers of a task.
func checkSums(cs []containerDefinition, t taskRules) *apiError {
	essential := false
	var cpu, memory int
	for i := range cs {
		c := &cs[i]
		essential = essential || c.isEssential()
		cpu += int(value(c.CPU))
		memory += int(or(c.MemoryReservation, value(c.Memory)))
	}
	// ECS API, ContainerDefinition: essential: "All tasks must have at least one
	// essential container".
	if !essential {
		return clientError("A task definition must have at least one essential container.")
	}
	// ECS API, ContainerDefinition: cpu, memory: the sum is bounded by the task's.
	// That equal is accepted is undocumented.
	if cpu > t.cpu {
		return clientError("The total cpu of the containers %d exceeds the task's %d.", cpu, t.cpu)
	}
	if memory > t.memory {
		return clientError("The total memory of the containers %d exceeds the task's %d.", memory, t.memory)
	}
	return nil
}

func (c *containerDefinition) isEssential() bool { return c.Essential == nil || *c.Essential }

// check applies the rules that concern one container.
func (c *containerDefinition) check(t taskRules) *apiError {
	if !namePattern.MatchString(value(c.Name)) {
		return clientError("Container.name contains invalid characters or is empty.")
	}
	if img := value(c.Image); img == "" || len(img) > maxImage || strings.ContainsAny(img, " \t\n") {
		return clientError("Container.image should not be null or empty or too long or have spaces.")
	}
	if c.User != nil && !userPattern.MatchString(*c.User) {
		return clientError("Invalid user %q.", *c.User)
	}
	for _, e := range []*apiError{
		c.checkUnsupported(), c.checkNumbers(), c.checkEnvironment(t.hasRole), c.RestartPolicy.check(), c.HealthCheck.check(),
		c.LinuxParameters.check(), checkUlimits(c.Ulimits), checkSystemControls(c.SystemControls), c.checkMounts(t.volumes),
		checkPorts(c.PortMappings), c.LogConfiguration.check(t.hasRole), c.Firelens.check(),
	} {
		if e != nil {
			return e
		}
	}
	// ECS API, ContainerDefinition: versionConsistency.
	if v := value(c.VersionConsistency); v != "" && v != "enabled" && v != "disabled" {
		return clientError("Invalid versionConsistency %q.", v)
	}
	return nil
}

// checkUnsupported is ECS developer guide, "Task definition differences for
// Fargate": parameters that are not valid in Fargate tasks.
func (c *containerDefinition) checkUnsupported() *apiError {
	bad := map[string]bool{
		"privileged": c.Privileged != nil, "links": len(c.Links) > 0, "hostname": c.Hostname != nil,
		"extraHosts": len(c.ExtraHosts) > 0, "dnsServers": len(c.DNSServers) > 0,
		"dnsSearchDomains": len(c.DNSSearchDomains) > 0, "dockerSecurityOptions": len(c.DockerSecurityOptions) > 0,
		"disableNetworking": c.DisableNetworking != nil, "resourceRequirements": len(c.ResourceRequirements) > 0,
	}
	if lp := c.LinuxParameters; lp != nil {
		bad["devices"] = len(lp.Devices) > 0
		bad["sharedMemorySize"] = lp.SharedMemorySize != nil
		bad["maxSwap"] = lp.MaxSwap != nil
		bad["swappiness"] = lp.Swappiness != nil
		// ECS API, KernelCapabilities: "you can only add SYS_PTRACE".
		bad["capabilities.add"] = lp.Capabilities != nil &&
			slices.ContainsFunc(lp.Capabilities.Add, func(s string) bool { return s != "SYS_PTRACE" })
	}
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
