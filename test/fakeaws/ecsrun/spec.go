package ecsrun

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// complete adds to a container that was made what CRI cannot say: resource limits
// and file systems in memory. containerd reads the specification when it starts it.
func (c *container) complete(ctx context.Context, spec ecs.ContainerSpec) error {
	ctx = inNamespace(ctx)
	reply, err := c.t.r.store.Get(ctx, &containersapi.GetContainerRequest{ID: c.id})
	if err != nil {
		return fmt.Errorf("get specification of container: %w", err)
	}
	stored := reply.GetContainer()
	limits, err := rlimits(spec.Ulimits)
	if err != nil {
		return err
	}
	mounts := tmpfsMounts(spec.Tmpfs)
	if spec.ExecMiB > 0 {
		mounts = append(mounts, c.t.r.agentMount())
	}
	if stored.Spec.Value, err = amend(stored.GetSpec().GetValue(), limits, mounts); err != nil {
		return err
	}
	_, err = c.t.r.store.Update(ctx, &containersapi.UpdateContainerRequest{
		Container: stored, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"spec"}},
	})
	if err != nil {
		return fmt.Errorf("complete specification of container: %w", err)
	}
	return nil
}

type object = map[string]any

// amend adds limits and mounts to an OCI runtime specification.
func amend(text []byte, limits, mounts []any) ([]byte, error) {
	var spec object
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&spec); err != nil {
		return nil, fmt.Errorf("read specification of container: %w", err)
	}
	process, ok := spec["process"].(object)
	if !ok {
		return nil, fmt.Errorf("specification of container has no process")
	}
	process["rlimits"] = limits
	given, _ := spec["mounts"].([]any)
	spec["mounts"] = append(given, mounts...)
	out, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("write specification of container: %w", err)
	}
	return out, nil
}

// rlimits are ulimits, none above what this machine lets its processes have.
func rlimits(given []ecs.Ulimit) ([]any, error) {
	out := []any{}
	for _, u := range given {
		soft, hard := uint64(u.Soft), uint64(u.Hard)
		if u.Name == "nofile" {
			var mine unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &mine); err != nil {
				return nil, fmt.Errorf("get limit of open files: %w", err)
			}
			soft, hard = min(soft, mine.Max), min(hard, mine.Max)
		}
		out = append(out, object{"type": "RLIMIT_" + strings.ToUpper(u.Name), "soft": soft, "hard": hard})
	}
	return out, nil
}

// tmpfsMounts have docker's options unless others are given (ECS API, Tmpfs; Docker
// documentation, "tmpfs mounts").
func tmpfsMounts(given []ecs.TmpfsSpec) []any {
	var out []any
	for _, t := range given {
		options := slices.DeleteFunc(
			append([]string{"noexec", "nosuid", "nodev"}, t.Options...), func(o string) bool { return o == "defaults" },
		)
		if !slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(o, "mode=") }) {
			options = append(options, "mode=1777")
		}
		options = append(options, fmt.Sprintf("size=%dm", t.SizeMiB))
		out = append(out, object{"destination": t.Path, "type": "tmpfs", "source": "tmpfs", "options": options})
	}
	return out
}
