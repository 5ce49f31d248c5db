package cri

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/transport"
	"github.com/burstlet/burstlet/backend/pause"
)

// maxResolvConf is far beyond what a resolver reads.
const maxResolvConf = 64 << 10

// pods implements [backend.Pods].
type pods struct{ *remote }

// Launch runs the sandbox of one attempt. An attempt that is there, live or
// dead, is what an earlier call made; a dead one is for the caller to see in
// the facts and to follow with the next attempt.
func (p pods) Launch(ctx, _ context.Context, spec backend.LaunchSpec) error {
	defer p.throttle.Begin()()
	ref := spec.Ref()
	config, err := p.sandboxConfig(ctx, spec.Pod, spec.Attempt)
	if err != nil {
		return fmt.Errorf("launch pod %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	if err := p.features.Supports(ctx, spec.Pod, spec.RuntimeHandler); err != nil {
		return fmt.Errorf("launch pod %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	conf, err := p.prepareSandbox(ctx, spec.Pod, config)
	if err != nil {
		return fmt.Errorf("launch pod %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	config.DnsConfig = p.convert.DNS(spec.Pod, conf)
	request := &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: spec.RuntimeHandler}
	return p.retryReserved(ctx, func() (bool, error) { return p.runSandbox(ctx, ref, request) })
}

// prepareSandbox makes what the sandbox needs on the host and reads, beside it,
// the resolver configuration that the pod's is made of. The host gives the pod's user
// namespace its ids, if it has one.
func (p pods) prepareSandbox(
	ctx context.Context, pod *corev1.Pod, config *runtimeapi.PodSandboxConfig,
) ([]byte, error) {
	cgroup, err := p.podCgroup(ctx, pod)
	if err != nil {
		return nil, err
	}
	if cgroup.Top, err = p.topLimits(ctx); err != nil {
		return nil, err
	}
	mark := host.Ownership{Node: p.cfg.NodeIdentity, Cgroup: cgroup.Parent}
	limits, err := storageLimits(pod, config.GetLogDirectory())
	if err != nil {
		return nil, err
	}
	writes := append([]host.Write{{
		Path: path.Join(config.GetLogDirectory(), host.LogMark), Data: mark.Bytes(), Mode: 0o644, KeepExisting: true,
	}}, limits...)
	var conf []byte
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		conf, err = p.hostResolvConf(ctx, pod)
		return err
	})
	g.Go(func() error {
		prepared, err := p.host.Prepare(ctx, host.Preparation{
			Dirs:   []string{config.GetLogDirectory()},
			Cgroup: &cgroup,
			Writes: writes,
			Ports:  convert.HostPorts(pod, config.GetLogDirectory()),
			Users:  convert.Users(pod, config.GetLogDirectory(), false),
		})
		if err != nil {
			return fmt.Errorf("prepare the host: %w", err)
		}
		p.details.limit(pod.UID, podLimitsOf(cgroup))
		convert.SetUsers(config.GetLinux().GetSecurityContext().GetNamespaceOptions(), prepared.FirstUser)
		return nil
	})
	return conf, g.Wait()
}

// runSandbox is done when the sandbox is there, or an error says why it is not.
// Where an earlier call still works on it, it is not done and has no error.
func (p pods) runSandbox(
	ctx context.Context, ref backend.Ref, request *runtimeapi.RunPodSandboxRequest,
) (done bool, err error) {
	reply, cause := p.runtime.RunPodSandbox(ctx, request)
	if cause == nil {
		ref.ID = reply.GetPodSandboxId()
		p.details.launch(ref)
		return true, nil
	}
	err = transport.Failed(cause, "run sandbox of pod %s/%s", ref.Namespace, ref.Name)
	if transport.Lost(cause) {
		return true, err
	}
	sandboxes, lookErr := p.listSandboxes(ctx, ref.UID)
	if lookErr != nil {
		return true, errors.Join(err, lookErr)
	}
	i := slices.IndexFunc(
		sandboxes, func(s *runtimeapi.PodSandbox) bool { return convert.SandboxRef(s).Attempt == ref.Attempt },
	)
	switch {
	case i >= 0 && reserved(cause):
		p.details.Own(sandboxes[i].GetId(), ref.UID)
		return true, nil
	case i >= 0:
		// The name was free, so this call made it and could not clean up.
		return true, errors.Join(err, p.removeSandbox(ctx, sandboxes[i].GetId()))
	case reserved(cause):
		return false, nil
	default:
		return true, err
	}
}

// hostResolvConf reads the host's resolver configuration where the pod's is
// made from it. A host without one has nothing to add.
func (r *remote) hostResolvConf(ctx context.Context, pod *corev1.Pod) ([]byte, error) {
	if pod.Spec.DNSPolicy == corev1.DNSNone {
		return nil, nil
	}
	conf, err := r.host.ReadFile(ctx, r.cfg.ResolvConf, maxResolvConf)
	if err != nil && !isNotExist(err) {
		return nil, fmt.Errorf("read the host's resolver configuration: %w", err)
	}
	return conf, nil
}

const (
	// reservedPoll and reservedPolls bound the wait for an earlier call that
	// still holds a name: its caller has gone, or is beside us.
	reservedPoll  = 100 * time.Millisecond
	reservedPolls = 100
)

// retryReserved calls try until it is done. Errors: Throttled when an earlier
// call takes longer than this one should wait.
func (r *remote) retryReserved(ctx context.Context, try func() (done bool, err error)) error {
	for range reservedPolls {
		if done, err := try(); done || err != nil {
			return err
		}
		if err := pause.For(ctx, reservedPoll); err != nil {
			return backend.Errorf(backend.ErrUnavailable, "wait for an earlier call to the runtime: %w", err)
		}
	}
	return backend.Errorf(backend.ErrThrottled, "an earlier call to the runtime is still at work on the same attempt")
}

// reserved is true when the runtime has the name already. containerd before 2.0
// answers Unknown, so the text has to tell.
func reserved(err error) bool {
	return status.Code(err) == codes.AlreadyExists || strings.Contains(err.Error(), "is reserved for")
}

func (r *remote) removeSandbox(ctx context.Context, id string) error {
	if err := (runtimeStops{r.runtime}).StopSandbox(ctx, id); err != nil {
		return err
	}
	if _, err := r.runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id}); err != nil &&
		!transport.IsNotFound(err) {
		return transport.Failed(err, "remove sandbox %s", id)
	}
	return nil
}
