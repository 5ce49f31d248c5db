package cri

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend/cri/transport"
)

// cgroupTimes tells how long what is done to pods' cgroups takes on the host.
type cgroupTimes struct {
	observe atomic.Pointer[func(operation string, took time.Duration)]
}

// tell has it told to whoever asked last.
func (c *cgroupTimes) tell(observe func(operation string, took time.Duration)) {
	c.observe.Store(&observe)
}

// note notes one operation; of 0 none was made.
func (c *cgroupTimes) note(operation string, took time.Duration) {
	if observe := c.observe.Load(); observe != nil && took > 0 {
		(*observe)(operation, took)
	}
}

// cgroupDriver is the configured driver, else the one that the runtime uses,
// asked once.
func (r *remote) cgroupDriver(ctx context.Context) (string, error) {
	if r.cfg.CgroupDriver != CgroupDriverAuto {
		return r.cfg.CgroupDriver, nil
	}
	r.driverMu.Lock()
	defer r.driverMu.Unlock()
	if r.driver == "" {
		driver, err := r.askCgroupDriver(ctx)
		if err != nil {
			return "", err
		}
		r.driver = driver
	}
	return r.driver, nil
}

func (r *remote) askCgroupDriver(ctx context.Context) (string, error) {
	reply, err := r.runtime.RuntimeConfig(ctx, &runtimeapi.RuntimeConfigRequest{})
	switch {
	case err == nil && reply.GetLinux() != nil:
		if reply.GetLinux().GetCgroupDriver() == runtimeapi.CgroupDriver_SYSTEMD {
			return CgroupDriverSystemd, nil
		}
		return CgroupDriverCgroupfs, nil
	case err != nil && status.Code(err) != codes.Unimplemented:
		return "", transport.Failed(err, "ask the runtime for its cgroup driver")
	}
	st, err := r.runtime.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return "", transport.Failed(err, "ask the runtime for its configuration")
	}
	if systemdCgroup(st.GetInfo()["config"]) {
		return CgroupDriverSystemd, nil
	}
	return CgroupDriverCgroupfs, nil
}

// systemdCgroup reads the configuration of containerd before 2.0, where the default
// runtime's options name the driver. Another runtime words it differently; cgroupfs
// is the default of all.
func systemdCgroup(config string) bool {
	c := parseConfiguration(config)
	return c.SystemdCgroup || c.Containerd.Runtimes[c.Containerd.DefaultRuntimeName].Options.SystemdCgroup
}
