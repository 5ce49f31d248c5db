package cri

import (
	"context"
	"path"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// cgroupParent is the cgroup that the pod's containers stand in: a path under
// the cgroupfs driver, the name of a slice under systemd's, which nests slices by
// the dashes in their names.
func cgroupParent(driver, top string, pod *corev1.Pod) string {
	parts := []string{top}
	if qos := podQoS(pod); qos != corev1.PodQOSGuaranteed {
		parts = append(parts, strings.ToLower(string(qos)))
	}
	if driver == CgroupDriverSystemd {
		for i := range parts {
			parts[i] = strings.ReplaceAll(parts[i], "-", "_")
		}
		uid := strings.ReplaceAll(string(pod.UID), "-", "_")
		return strings.Join(append(parts, "pod"+uid), "-") + ".slice"
	}
	return "/" + path.Join(append(parts, "pod"+string(pod.UID))...)
}

// topCgroup is the one above all pods.
func topCgroup(driver, top string) host.Cgroup {
	if driver == CgroupDriverSystemd {
		return host.Cgroup{Parent: strings.ReplaceAll(top, "-", "_") + ".slice", Systemd: true}
	}
	return host.Cgroup{Parent: "/" + top}
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
		return "", failed(err, "ask the runtime for its cgroup driver")
	}
	st, err := r.runtime.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return "", failed(err, "ask the runtime for its configuration")
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
