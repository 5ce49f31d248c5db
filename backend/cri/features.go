package cri

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

// appArmorEnabled is where the kernel says whether it enforces profiles.
const appArmorEnabled = "/sys/module/apparmor/parameters/enabled"

// supports refuses what this runtime and its host, as they are, cannot do. Errors:
// Unsupported, naming the field.
func (r *remote) supports(ctx context.Context, pod *corev1.Pod, handler string) error {
	if err := r.supportsAppArmor(ctx, pod); err != nil {
		return err
	}
	if err := r.supportsImageVolumes(ctx, pod); err != nil {
		return err
	}
	strict := convert.GroupsPolicy(pod) != runtimeapi.SupplementalGroupsPolicy_Merge
	if !strict && !convert.OwnUsers(pod) {
		return nil
	}
	st, err := r.runtime.Status(ctx, &runtimeapi.StatusRequest{})
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
func (r *remote) supportsAppArmor(ctx context.Context, pod *corev1.Pod) error {
	field := convert.AppArmorField(pod)
	if field == "" {
		return nil
	}
	enabled, err := r.host.ReadFile(ctx, appArmorEnabled, 1<<10)
	if err != nil && !isNotExist(err) {
		return fmt.Errorf("ask the host for AppArmor: %w", err)
	}
	if !strings.HasPrefix(string(enabled), "Y") {
		return backend.Errorf(
			backend.ErrUnsupported, "%s: Cannot enforce AppArmor: AppArmor is not enabled on the host", field,
		)
	}
	return nil
}

// configuration is containerd's own, as its verbose status shows it.
type configuration struct {
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

func configurationOf(st *runtimeapi.StatusResponse) configuration {
	return parseConfiguration(st.GetInfo()["config"])
}

// parseConfiguration is empty where another runtime words it differently.
func parseConfiguration(text string) configuration {
	var c configuration
	if json.Unmarshal([]byte(text), &c) != nil {
		return configuration{}
	}
	return c
}

// sandboxImage is the image of the sandboxes' own process, which newer runtimes pin.
func (r *remote) sandboxImage(ctx context.Context) (string, error) {
	st, err := r.runtime.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return "", transport.Failed(err, "ask the container runtime for its configuration")
	}
	return configurationOf(st).SandboxImage, nil
}

// supportsUsers refuses a user namespace that the runtime cannot make.
func supportsUsers(pod *corev1.Pod, st *runtimeapi.StatusResponse, handler string) error {
	if !convert.OwnUsers(pod) || slices.Contains(userNamespaces(st), handler) {
		return nil
	}
	return backend.Errorf(backend.ErrUnsupported, "spec.hostUsers: the runtime's handler %q cannot make user namespaces: "+
		"leave it out, or use containerd 2.0 or newer with runc 1.2 or newer (or crun) on a kernel of 6.3 or newer", handler)
}

// userNamespaces are the handlers that can make them.
func userNamespaces(st *runtimeapi.StatusResponse) []string {
	var out []string
	for _, h := range st.GetRuntimeHandlers() {
		if h.GetFeatures().GetUserNamespaces() {
			out = append(out, h.GetName())
		}
	}
	return out
}
