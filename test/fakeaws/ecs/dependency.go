package ecs

import "slices"

// checkDependencies is ECS API, ContainerDependency: the targets exist, COMPLETE
// and SUCCESS are not on an essential container, HEALTHY is on one with a health
// check.
func checkDependencies(cs []containerDefinition, index map[string]int) *apiError {
	for _, c := range cs {
		for _, d := range c.DependsOn {
			target, ok := index[value(d.ContainerName)]
			if !ok {
				return clientError("Container %q depends on a container that is not there: %q.", *c.Name, value(d.ContainerName))
			}
			switch cond := value(d.Condition); cond {
			case "START":
			case "HEALTHY":
				if cs[target].HealthCheck == nil {
					return clientError("A container with a HEALTHY dependency must have a health check: %q.", *cs[target].Name)
				}
			case "COMPLETE", "SUCCESS":
				if cs[target].isEssential() {
					return clientError("A container with a %s dependency cannot be essential: %q.", cond, *cs[target].Name)
				}
			default:
				return clientError("Invalid condition %q.", cond)
			}
		}
	}
	return nil
}

// dependencyOrder puts dependencies first and refuses a cycle.
func dependencyOrder(cs []containerDefinition, index map[string]int) ([]int, *apiError) {
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
