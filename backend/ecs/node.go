package ecs

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
	"github.com/burstlet/burstlet/backend/ecs/cost"
	"github.com/burstlet/burstlet/backend/ecs/fargate"
)

// node is backend.Node on ECS: there is no machine, only the service.
type node struct {
	cfg    Config
	remote *remote
	meter  *cost.Meter
}

// Describe asks whether the cluster is there and active. All else is known.
func (n node) Describe(ctx context.Context) (backend.NodeFacts, error) {
	if err := awscall.Wait(ctx, n.remote.buckets.readCluster); err != nil {
		return backend.NodeFacts{}, err
	}
	out, err := n.remote.api.DescribeClusters(ctx, &awsecs.DescribeClustersInput{Clusters: []string{n.cfg.Cluster}})
	if err != nil {
		return backend.NodeFacts{}, fmt.Errorf("describe cluster %s: %w", n.cfg.Cluster, awscall.Classify(err))
	}
	if len(out.Clusters) == 0 {
		return backend.NodeFacts{}, backend.Errorf(
			backend.ErrUnavailable, "describe cluster %s: there is none of this name in %s", n.cfg.Cluster, n.cfg.Region,
		)
	}
	if s := aws.ToString(out.Clusters[0].Status); s != "ACTIVE" {
		return backend.NodeFacts{}, backend.Errorf(backend.ErrUnavailable, "describe cluster %s: it is %s", n.cfg.Cluster, s)
	}
	return backend.NodeFacts{
		Capacity: n.cfg.Capacity.DeepCopy(), OS: "linux", Arch: fargate.GoArch(n.cfg.CPUArchitecture),
		Kernel: "unknown", OSImage: "AWS Fargate", RuntimeVersion: "ecs://fargate-1.4.0", NetworkReady: true,
		SupplementalGroupsPolicy: true, // the supervisor's work: without it taskdef refuses the field
		Annotations:              n.meter.Annotations(time.Now()),
	}, nil
}
