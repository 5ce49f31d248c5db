package sshlink

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

const (
	// runtimeTimeout bounds the runtime's answers.
	runtimeTimeout = 10 * time.Second
	// oldest is the oldest minor version of containerd 1 that is good enough.
	oldest = 6
	// triedRuntime is the only one that tests ran with (docs/backends.md, "Hosts that were
	// tried").
	triedRuntime = "containerd"
)

// DiagnoseRuntime examines the container runtime behind a socket of a host, as its
// user.
func DiagnoseRuntime(ctx context.Context, dialer host.Dialer, user, socket string) []backend.Finding {
	ctx, cancel := context.WithTimeout(ctx, runtimeTimeout)
	defer cancel()
	const what = "runtime socket"
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return []backend.Finding{{
			What: what, Detail: fmt.Sprintf("%s: %v", socket, cause(err)), Advice: socketAdvice(err, user),
		}}
	}
	// It only showed that it can be opened.
	_ = conn.Close()
	findings := []backend.Finding{{What: what, OK: true, Detail: socket}}
	client, err := grpc.NewClient("passthrough:///cri",
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		}))
	if err != nil {
		return append(findings, backend.Finding{What: "runtime", Detail: err.Error()})
	}
	defer func() { _ = client.Close() }() // it has been asked all there is to ask
	return append(findings, runtimeFindings(ctx, runtimeapi.NewRuntimeServiceClient(client))...)
}

// socketAdvice is what to do about a socket that cannot be opened.
func socketAdvice(err error, user string) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "is containerd installed and running there, and is this its socket?"
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("%[1]s may not open it: become root, or give the socket a group that %[1]s is in "+
			"(gid of [grpc] in containerd's config.toml)", user)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nobody listens there: start containerd; if it runs, set AllowStreamLocalForwarding yes in the host's " +
			"sshd_config"
	case errors.Is(err, backend.ErrDenied):
		return "set AllowStreamLocalForwarding yes in the host's sshd_config"
	default:
		return ""
	}
}

// runtimeFindings are what the runtime says of itself.
func runtimeFindings(ctx context.Context, client runtimeapi.RuntimeServiceClient) []backend.Finding {
	const what = "runtime"
	version, err := client.Version(ctx, &runtimeapi.VersionRequest{})
	switch {
	case status.Code(err) == codes.Unimplemented:
		return []backend.Finding{{
			What: what, Detail: "it does not speak CRI v1: " + status.Convert(err).Message(),
			Advice: "containerd 1.6 or newer is needed, without cri in disabled_plugins of its config.toml",
		}}
	case err != nil:
		return []backend.Finding{{
			What: what, Detail: status.Convert(err).Message(), Advice: "see the log of the container runtime",
		}}
	}
	name := version.GetRuntimeName() + " " + version.GetRuntimeVersion()
	if tooOld(version.GetRuntimeName(), version.GetRuntimeVersion()) {
		return []backend.Finding{{What: what, Detail: name, Advice: "containerd 1.6 or newer is needed"}}
	}
	findings := []backend.Finding{backend.Good(what, name)}
	if version.GetRuntimeName() != triedRuntime {
		findings[0] = backend.Doubtful(
			what, name+": it was not tried", "use containerd 1.6 or newer, or try your pods on it first",
		)
	}
	state, err := client.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return append(findings, backend.Finding{
			What: "runtime status", Detail: status.Convert(err).Message(), Advice: "see the log of the container runtime",
		})
	}
	for _, c := range state.GetStatus().GetConditions() {
		findings = append(findings, conditionFinding(c))
	}
	// containerd 1 does not say.
	if config, err := client.RuntimeConfig(ctx, &runtimeapi.RuntimeConfigRequest{}); err == nil &&
		config.GetLinux() != nil {
		findings = append(
			findings, backend.Good("cgroup driver", strings.ToLower(config.GetLinux().GetCgroupDriver().String())),
		)
	}
	return findings
}

// conditionFinding judges RuntimeReady and NetworkReady; others inform.
func conditionFinding(c *runtimeapi.RuntimeCondition) backend.Finding {
	f := backend.Finding{What: c.GetType(), OK: c.GetStatus(), Detail: "yes"}
	if f.OK {
		return f
	}
	f.Detail = strings.Trim(c.GetReason()+": "+c.GetMessage(), ": ")
	switch c.GetType() {
	case runtimeapi.RuntimeReady:
		f.Advice = "see the log of the container runtime"
	case runtimeapi.NetworkReady:
		f.Advice = "only pods on the host's network start: install CNI plugins and a configuration in /etc/cni/net.d"
	default:
		f.Warn = true
	}
	return f
}

// tooOld is true for a containerd before 1.6.
func tooOld(name, version string) bool {
	if name != triedRuntime {
		return false
	}
	words := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(words) < 2 {
		return false
	}
	major, err := strconv.Atoi(words[0])
	if err != nil {
		return false
	}
	minor, err := strconv.Atoi(words[1])
	return err == nil && (major == 0 || major == 1 && minor < oldest)
}
