package features

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

// appArmorEnabled is where the kernel says whether it enforces profiles.
const appArmorEnabled = "/sys/module/apparmor/parameters/enabled"

// Runtime is a container runtime with its host, asked for what they can do.
type Runtime struct {
	runtime    runtimeapi.RuntimeServiceClient
	host       host.Host
	configured string // driver of cgroups

	driverMu sync.Mutex
	driver   string // once known
}

// New is of a runtime and its host. The driver of cgroups is the configured one.
func New(runtime runtimeapi.RuntimeServiceClient, h host.Host, driver string) *Runtime {
	return &Runtime{runtime: runtime, host: h, configured: driver}
}

// Supports refuses what this runtime and its host, as they are, cannot do. Errors:
// Unsupported, naming the field.
func (f *Runtime) Supports(ctx context.Context, pod *corev1.Pod, handler string) error {
	if err := f.supportsAppArmor(ctx, pod); err != nil {
		return err
	}
	if err := f.SupportsImageVolumes(ctx, pod); err != nil {
		return err
	}
	strict := convert.GroupsPolicy(pod) != runtimeapi.SupplementalGroupsPolicy_Merge
	if !strict && !convert.OwnUsers(pod) {
		return nil
	}
	st, err := f.runtime.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return transport.Failed(err, "ask the container runtime what it can do")
	}
	if err := supportsUsers(pod, st, handler); err != nil {
		return err
	}
	if strict && !st.GetFeatures().GetSupplementalGroupsPolicy() {
		return backend.Errorf(backend.ErrUnsupported, "spec.securityContext.supplementalGroupsPolicy: "+
			"SupplementalGroupsPolicy=Strict is not supported in this node: use Merge, or containerd 2.0 or newer")
	}
	return nil
}

// supportsAppArmor refuses a profile that nothing would enforce: the runtime leaves
// one out without a word (kubelet: appArmorAdmitHandler).
func (f *Runtime) supportsAppArmor(ctx context.Context, pod *corev1.Pod) error {
	field := convert.AppArmorField(pod)
	if field == "" {
		return nil
	}
	enabled, err := f.host.ReadFile(ctx, appArmorEnabled, 1<<10)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("ask the host for AppArmor: %w", err)
	}
	if !strings.HasPrefix(string(enabled), "Y") {
		return backend.Errorf(
			backend.ErrUnsupported, "%s: Cannot enforce AppArmor: AppArmor is not enabled on the host", field,
		)
	}
	return nil
}

// Configuration is containerd's own, as its verbose status shows it.
type Configuration struct {
	SandboxImage  string `json:"sandboxImage"`
	SystemdCgroup bool   `json:"systemdCgroup"`
	Containerd    struct {
		DefaultRuntimeName string `json:"defaultRuntimeName"`
		Runtimes           map[string]struct {
			Options struct {
				SystemdCgroup bool `json:"SystemdCgroup"`
			} `json:"options"`
		} `json:"runtimes"`
	} `json:"containerd"`
}

// ConfigurationOf reads it from a verbose status.
func ConfigurationOf(st *runtimeapi.StatusResponse) Configuration {
	return parseConfiguration(st.GetInfo()["config"])
}

// parseConfiguration is empty where another runtime words it differently.
func parseConfiguration(text string) Configuration {
	var c Configuration
	if json.Unmarshal([]byte(text), &c) != nil {
		return Configuration{}
	}
	return c
}

// SandboxImage is the image of the sandboxes' own process, which newer runtimes pin.
func (f *Runtime) SandboxImage(ctx context.Context) (string, error) {
	st, err := f.runtime.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return "", transport.Failed(err, "ask the container runtime for its configuration")
	}
	return ConfigurationOf(st).SandboxImage, nil
}

// supportsUsers refuses a user namespace that the runtime cannot make.
func supportsUsers(pod *corev1.Pod, st *runtimeapi.StatusResponse, handler string) error {
	if !convert.OwnUsers(pod) || slices.Contains(UserNamespaces(st), handler) {
		return nil
	}
	return backend.Errorf(backend.ErrUnsupported, "spec.hostUsers: the runtime's handler %q cannot make user namespaces: "+
		"leave it out, or use containerd 2.0 or newer with runc 1.2 or newer (or crun) on a kernel of 6.3 or newer", handler)
}

// UserNamespaces are the handlers that can make them.
func UserNamespaces(st *runtimeapi.StatusResponse) []string {
	var out []string
	for _, h := range st.GetRuntimeHandlers() {
		if h.GetFeatures().GetUserNamespaces() {
			out = append(out, h.GetName())
		}
	}
	return out
}
