package burstletimage_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/burstletimage"
	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

const (
	node = "from-the-image"
	// nonroot is the image's user.
	nonroot = 65532
	// maxArchive is in bytes: what a node pulls, and few more.
	maxArchive = 40 << 20
	// patience bounds each step, on a machine that builds other packages meanwhile.
	patience = 5 * time.Minute
)

// TestTheImageNeedsNoRights: a real containerd runs it as the image's own user, on a
// read-only root, without capabilities and without a writable directory anywhere;
// burstlet brings its node to Ready in a real cluster, answers commands in its
// container, and ends when told to.
func TestTheImageNeedsNoRights(t *testing.T) {
	lane.From(t, lane.Gate)
	host := remotehost.ForTest(t, func(c *remotehost.Config) { c.Linked = true })
	var archive string
	dir := t.TempDir()
	var building errgroup.Group
	building.Go(func() (err error) {
		archive, err = burstletimage.Build(t.Context(), dir)
		return err
	})
	cluster := cptest.New(t, controlplane.Config{BindAddress: host.Gateway().String(), WithoutScheduler: true})
	if err := building.Wait(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(archive); err != nil {
		t.Error(err)
	} else if info.Size() > maxArchive {
		t.Errorf("the archive has %d bytes, at most %d are wanted", info.Size(), maxArchive)
	}
	if err := host.ImportImages(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
	p := sandbox(t, host)
	p.mounts = []*runtimeapi.Mount{{HostPath: configure(t, host, cluster), ContainerPath: "/etc/burstlet", Readonly: true}}

	version := p.start(t, "version", "version", "--output", "json")
	if code := p.exitCode(t, version); code != 0 {
		t.Errorf("burstlet version ended with %d", code)
	}
	var said struct{ Version string }
	if line := p.log(t, "version"); json.Unmarshal([]byte(line), &said) != nil || said.Version != burstletimage.Version {
		t.Errorf("burstlet version said %q", line)
	}

	run := p.start(t, "run")
	p.checkRights(t, run)
	becomesReady(t, cluster, p)
	if said, _, _ := strings.Cut(p.exec(t, run, "burstlet", "version"), "\n"); said != "burstlet "+burstletimage.Version {
		t.Errorf("burstlet version said %q", said)
	}
	// It reads its configuration and credential, and finds the node that runs beside it.
	found := p.exec(t, run, "burstlet", "doctor")
	if !strings.HasPrefix(found, "node "+node+" (sim)\n") || !runsHere.MatchString(found) {
		t.Errorf("burstlet doctor does not find the node that runs:\n%s", found)
	}
	if _, err := p.runtime.StopContainer(
		t.Context(), &runtimeapi.StopContainerRequest{ContainerId: run, Timeout: 180},
	); err != nil {
		t.Error(err)
	}
	if code := p.exitCode(t, run); code != 0 {
		t.Errorf("burstlet ended with %d when it was told to", code)
	}
	for _, bad := range []string{"read-only file system", "permission denied", "operation not permitted"} {
		if log := p.log(t, "run"); strings.Contains(log, bad) {
			t.Errorf("it met %q:\n%s", bad, log)
		}
	}
}

// runsHere is what burstlet doctor says of a node with a process.
var runsHere = regexp.MustCompile(`(?m)^  ok +node +Node ` + node + ` is run by a burstlet now$`)

// configure writes what burstlet is told into a directory that only the image's user
// may read, as the mounts of ConfigMaps and Secrets are.
func configure(t *testing.T, host *remotehost.Host, cluster *controlplane.ControlPlane) (dir string) {
	t.Helper()
	dir = filepath.Join(host.Shared(), "etc")
	credential, err := cluster.NodeCredential(node)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(cluster.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`apiVersion: burstlet.dev/v1alpha1
kind: BurstletConfiguration
kubeconfig: /etc/burstlet/kubeconfig
node: {name: %s, internalIP: %s}
backend: {type: sim}
kubeletAPI: {selfSigned: true, clientCAFile: /etc/burstlet/ca.crt}
`, node, host.Gateway()) // any address will do: nobody calls the node
	kubeconfig := filepath.Join(dir, "kubeconfig")
	err = errors.Join(os.Mkdir(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "burstlet.yaml"), []byte(config), 0o400),
		os.WriteFile(filepath.Join(dir, "ca.crt"), ca, 0o400),
		controlplane.WriteKubeconfig(kubeconfig, credential))
	for _, path := range []string{dir, filepath.Join(dir, "burstlet.yaml"), filepath.Join(dir, "ca.crt"), kubeconfig} {
		err = errors.Join(err, os.Chown(path, nonroot, nonroot))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func becomesReady(t *testing.T, cluster *controlplane.ControlPlane, p *pod) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("burstlet says: %s", p.log(t, "run"))
		}
	})
	wait.Node(t, cptest.Client(t, cluster.AdminConfig()), node, patience, "Ready", wait.NodeReady)
}

// pod is a sandbox on the host in which containers of the image run.
type pod struct {
	runtime runtimeapi.RuntimeServiceClient
	id      string
	config  *runtimeapi.PodSandboxConfig
	mounts  []*runtimeapi.Mount
}

func sandbox(t *testing.T, host *remotehost.Host) *pod {
	t.Helper()
	runtime, images := host.CRI()
	wait.For(t, patience, "image", func() error {
		reply, err := images.ImageStatus(
			t.Context(), &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: burstletimage.Ref}},
		)
		if err == nil && reply.GetImage() == nil {
			err = errors.New("not known")
		}
		return err
	})
	config := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "burstlet", Namespace: "default", Uid: "burstlet"},
		LogDirectory: filepath.Join(host.Shared(), "logs"),
		Linux:        &runtimeapi.LinuxPodSandboxConfig{},
	}
	reply, err := runtime.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	return &pod{runtime: runtime, id: reply.GetPodSandboxId(), config: config}
}

// start runs a container with a command of burstlet's, as the chart's pods are run:
// the rest is the image's.
func (p *pod) start(t *testing.T, command string, args ...string) (id string) {
	t.Helper()
	if len(args) == 0 {
		args = []string{command}
	}
	created, err := p.runtime.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{
		PodSandboxId: p.id, SandboxConfig: p.config,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: command},
			Image:    &runtimeapi.ImageSpec{Image: burstletimage.Ref},
			Args:     args,
			Envs:     []*runtimeapi.KeyValue{{Key: "BURSTLET_CONFIG", Value: []byte("/etc/burstlet/burstlet.yaml")}},
			LogPath:  command + ".log",
			Mounts:   p.mounts,
			Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				ReadonlyRootfs: true, NoNewPrivs: true,
				Capabilities: &runtimeapi.Capability{DropCapabilities: []string{"ALL"}},
			}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	id = created.GetContainerId()
	if _, err := p.runtime.StartContainer(t.Context(), &runtimeapi.StartContainerRequest{ContainerId: id}); err != nil {
		t.Fatal(err)
	}
	return id
}

// checkRights looks at what the runtime was told to run.
func (p *pod) checkRights(t *testing.T, id string) {
	t.Helper()
	reply, err := p.runtime.ContainerStatus(
		t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	var info struct {
		RuntimeSpec struct {
			Process struct {
				User         struct{ UID, GID int }
				Capabilities map[string][]string
			}
			Root struct{ Readonly bool }
		}
	}
	if err := json.Unmarshal([]byte(reply.GetInfo()["info"]), &info); err != nil {
		t.Fatal(err)
	}
	process := info.RuntimeSpec.Process
	if process.User.UID != nonroot || process.User.GID != nonroot || !info.RuntimeSpec.Root.Readonly {
		t.Errorf("it runs as %+v, on a read-only root: %v", process.User, info.RuntimeSpec.Root.Readonly)
	}
	for set, capabilities := range process.Capabilities {
		if len(capabilities) > 0 {
			t.Errorf("it has %s capabilities: %q", set, capabilities)
		}
	}
}

// exec runs a command, which must end well, and returns what it prints.
func (p *pod) exec(t *testing.T, id string, command ...string) string {
	t.Helper()
	reply, err := p.runtime.ExecSync(
		t.Context(), &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: int64(patience.Seconds())},
	)
	if err != nil {
		t.Fatalf("%q: %v", command, err)
	}
	said := string(reply.GetStdout()) + string(reply.GetStderr())
	if code := reply.GetExitCode(); code != 0 {
		t.Errorf("%q ended with %d:\n%s", command, code, said)
	}
	return said
}

func (p *pod) exitCode(t *testing.T, id string) (code int32) {
	t.Helper()
	wait.For(t, patience, "end of the container", func() error {
		reply, err := p.runtime.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id})
		if err != nil {
			return err
		}
		code = reply.GetStatus().GetExitCode()
		if state := reply.GetStatus().GetState(); state != runtimeapi.ContainerState_CONTAINER_EXITED {
			return fmt.Errorf("it is %s", state)
		}
		return nil
	})
	return code
}

// log is what a container wrote, without the log file's own columns.
func (p *pod) log(t *testing.T, command string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(p.config.GetLogDirectory(), command+".log"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(content)) {
		if columns := strings.SplitN(line, " ", 4); len(columns) == 4 {
			lines = append(lines, columns[3])
		}
	}
	return strings.Join(lines, "")
}
