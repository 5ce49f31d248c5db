package features

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend/cri/criconfig"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

// CgroupDriver is the configured driver, else the one that the runtime uses,
// asked once.
func (f *Runtime) CgroupDriver(ctx context.Context) (string, error) {
	if f.configured != criconfig.CgroupDriverAuto {
		return f.configured, nil
	}
	f.driverMu.Lock()
	defer f.driverMu.Unlock()
	if f.driver == "" {
		driver, err := f.askCgroupDriver(ctx)
		if err != nil {
			return "", err
		}
		f.driver = driver
	}
	return f.driver, nil
}

func (f *Runtime) askCgroupDriver(ctx context.Context) (string, error) {
	reply, err := f.runtime.RuntimeConfig(ctx, &runtimeapi.RuntimeConfigRequest{})
	switch {
	case err == nil && reply.GetLinux() != nil:
		if reply.GetLinux().GetCgroupDriver() == runtimeapi.CgroupDriver_SYSTEMD {
			return criconfig.CgroupDriverSystemd, nil
		}
		return criconfig.CgroupDriverCgroupfs, nil
	case err != nil && status.Code(err) != codes.Unimplemented:
		return "", transport.Failed(err, "ask the runtime for its cgroup driver")
	}
	st, err := f.runtime.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return "", transport.Failed(err, "ask the runtime for its configuration")
	}
	if systemdCgroup(st.GetInfo()["config"]) {
		return criconfig.CgroupDriverSystemd, nil
	}
	return criconfig.CgroupDriverCgroupfs, nil
}

// systemdCgroup reads the configuration of containerd before 2.0, where the default
// runtime's options name the driver. Another runtime words it differently; cgroupfs
// is the default of all.
func systemdCgroup(config string) bool {
	c := parseConfiguration(config)
	return c.SystemdCgroup || c.Containerd.Runtimes[c.Containerd.DefaultRuntimeName].Options.SystemdCgroup
}
