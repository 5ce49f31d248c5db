package cri

import (
	"context"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
)

// joinTarget puts an ephemeral container into the process namespace of its
// target, unless the whole pod or host shares one.
func (r *remote) joinTarget(ctx context.Context, spec backend.ContainerSpec, config *runtimeapi.ContainerConfig) error {
	namespaces := config.GetLinux().GetSecurityContext().GetNamespaceOptions()
	if spec.Target == "" || namespaces.GetPid() != runtimeapi.NamespaceMode_CONTAINER {
		return nil
	}
	selector := r.convert.Selector(spec.Pod.UID)
	selector[convert.LabelContainerName] = spec.Target
	list, err := r.listContainers(ctx, selector)
	if err != nil {
		return err
	}
	var newest *runtimeapi.Container
	for _, c := range list {
		if newest == nil || c.GetMetadata().GetAttempt() > newest.GetMetadata().GetAttempt() {
			newest = c
		}
	}
	if newest == nil {
		return fmt.Errorf("unable to find target container %s", spec.Target)
	}
	namespaces.Pid, namespaces.TargetId = runtimeapi.NamespaceMode_TARGET, newest.GetId()
	return nil
}
