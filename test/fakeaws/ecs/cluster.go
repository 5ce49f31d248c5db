package ecs

import "slices"

// checkCluster accepts the name or the ARN of the one cluster; empty is
// "default" (ECS API, RunTask: cluster).
func (s *Server) checkCluster(c *string) *apiError {
	name := "default"
	if c != nil && *c != "" {
		name = *c
	}
	if name != s.cfg.Cluster && name != s.arn("cluster/"+s.cfg.Cluster) {
		return failf("ClusterNotFoundException", "Cluster not found.")
	}
	return nil
}

// clusterIncludes are ECS API, DescribeClusters: include.
var clusterIncludes = []string{"ATTACHMENTS", "CONFIGURATIONS", "SETTINGS", "STATISTICS", "TAGS"}

func (s *Server) describeClusters(c *request) (any, *apiError) {
	var in struct {
		Clusters []string `json:"clusters"`
		Include  []string `json:"include"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	for _, inc := range in.Include {
		if !slices.Contains(clusterIncludes, inc) {
			return nil, invalidParameter("Invalid include %q.", inc)
		}
	}
	if len(in.Clusters) == 0 {
		in.Clusters = []string{"default"}
	}
	// ECS API, DescribeClusters: "up to 100 clusters".
	if len(in.Clusters) > maxDescribe {
		return nil, invalidParameter("Clusters cannot be more than %d.", maxDescribe)
	}
	clusters, failures := []any{}, []failure{}
	for _, name := range in.Clusters {
		arn := name
		if !isArn(name) {
			arn = s.arn("cluster/" + name)
		}
		if e := s.authorize("ecs:DescribeClusters", arn); e != nil {
			return nil, e
		}
		if s.checkCluster(&name) != nil {
			failures = append(failures, failure{Arn: arn, Reason: "MISSING"})
			continue
		}
		running, pending := s.counts(c)
		clusters = append(clusters, map[string]any{
			"clusterArn": arn, "clusterName": s.cfg.Cluster, "status": "ACTIVE",
			"registeredContainerInstancesCount": 0, "runningTasksCount": running, "pendingTasksCount": pending,
			"activeServicesCount": 0,
			"capacityProviders":   s.cfg.CapacityProviders, "defaultCapacityProviderStrategy": []any{}, "settings": []any{},
			"statistics": []any{}, "tags": []any{},
		})
	}
	return map[string]any{"clusters": clusters, "failures": failures}, nil
}

// counts are the tasks RUNNING and those before it.
func (s *Server) counts(c *request) (running, pending int) {
	for _, t := range s.tasks {
		switch t.life.status(c.now.Sub(t.created)) {
		case "RUNNING":
			running++
		case "PENDING", "PROVISIONING":
			pending++
		}
	}
	return running, pending
}
