package remotehost

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/kit/wait"
)

func TestSSHUsers(t *testing.T) {
	h := ForTest(t)
	for name, c := range map[string]struct{ user, command, want string }{
		"root":                         {Root, "id -un; pwd", "root\n/root"},
		"burst":                        {Burst, "id -un; pwd", "burst\n/home/burst"},
		"burst may use the socket":     {Burst, "test -w /run/containerd/containerd.sock && id -Gn", "burst containerd"},
		"burst may use sudo":           {Burst, "sudo -n id -u", "0"},
		"an exit code is passed on":    {Root, "(exit 3); echo $?", "3"},
		"processes live in its cgroup": {Root, "grep -Evc ':/(init.scope)?$' /proc/self/cgroup || true", "0"},
		"sftp":                         {Root, "ls /usr/lib/openssh/sftp-server", "/usr/lib/openssh/sftp-server"},
	} {
		if got := overSSH(t, h, c.user, c.command); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	cmd := sshCommand(t.Context(), h, Root, "tty && stty size", "-tt")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "/dev/pts/") {
		t.Errorf("with a terminal: %v: %s", err, out)
	}
	if out, err := sshCommand(t.Context(), h, "nobody", "true").CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "Permission denied") {
		t.Errorf("another user: %v: %s", err, out)
	}
}

func TestNoSudo(t *testing.T) {
	h := ForTest(t, func(c *Config) { c.NoSudo = true })
	out, err := sshCommand(t.Context(), h, Burst, "sudo -n true").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "password is required") {
		t.Errorf("sudo: %v: %s", err, out)
	}
}

func TestSSHForwardsTheSocket(t *testing.T) {
	h := ForTest(t)
	_, container := runPod(t, h, "seen", "sleep 3600")
	for _, user := range []string{Root, Burst} {
		local := filepath.Join(t.TempDir(), "cri.sock")
		ctx, cancel := context.WithCancel(t.Context())
		tunnel := sshCommand(ctx, h, user, "", "-N", "-o", "ExitOnForwardFailure=yes", "-L", local+":"+containerdSocket)
		if err := tunnel.Start(); err != nil {
			t.Fatal(err)
		}
		conn, err := grpc.NewClient("unix://"+local, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		wait.For(t, patience, "tunnel", func() error {
			_, err := os.Stat(local)
			return err
		})
		list, err := runtimeapi.NewRuntimeServiceClient(conn).ListContainers(
			t.Context(), &runtimeapi.ListContainersRequest{}, grpc.WaitForReady(true),
		)
		if err != nil || len(list.GetContainers()) != 1 || list.GetContainers()[0].GetId() != container {
			t.Errorf("%s lists %v, %v", user, list, err)
		}
		conn.Close()
		cancel()
		_ = tunnel.Wait() // killed
	}
}

func TestSSHDOptionsWin(t *testing.T) {
	h := ForTest(t, func(c *Config) {
		c.SSHDOptions = []string{"AllowStreamLocalForwarding no", "PermitTTY no", "Subsystem sftp /bin/false"}
	})
	if out := inside(
		t, h, "/usr/sbin/sshd -T | grep -E '^(allowstreamlocalforwarding|permittty|subsystem|allowtcpforwarding)' | sort",
	); out !=
		"allowstreamlocalforwarding no\nallowtcpforwarding yes\npermittty no\nsubsystem sftp /bin/false" {
		t.Errorf("sshd has %s", out)
	}
	overSSH(t, h, Root, "true")
}

func TestHostKeyChanges(t *testing.T) {
	h := ForTest(t)
	before := overSSH(t, h, Root, "cat /etc/ssh/*.pub")
	if err := h.ChangeHostKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	out, err := sshCommand(t.Context(), h, Root, "true").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "Host key verification failed") {
		t.Errorf("with another host key: %v: %s", err, out)
	}
	if err := h.TrustHostKey(); err != nil {
		t.Fatal(err)
	}
	if after := overSSH(t, h, Root, "cat /etc/ssh/*.pub"); after == before {
		t.Error("the key is the same")
	}
}

func TestSSHDKilledAndStarted(t *testing.T) {
	h := ForTest(t)
	session := sshCommand(t.Context(), h, Root, "echo up; sleep 3600")
	out, err := session.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if err := h.KillSSHD(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := session.Wait(); err == nil {
		t.Error("a session outlived sshd")
	}
	if _, err := sshCommand(t.Context(), h, Root, "true").CombinedOutput(); err == nil {
		t.Error("someone answers in the place of sshd")
	}
	if err := h.StartSSHD(t.Context()); err != nil {
		t.Fatal(err)
	}
	overSSH(t, h, Root, "true")
}

func TestJumpHost(t *testing.T) {
	jump, target := ForTest(t), ForTest(t)
	address, err := jump.Reach(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	line, err := target.KnownHostsLine(address)
	if err != nil {
		t.Fatal(err)
	}
	known := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(known, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	proxy := sshCommand(t.Context(), jump, Root, "", "-W", address)
	cmd := exec.CommandContext(t.Context(), "ssh", "-F", "none", "-i", target.KeyFile(),
		"-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes",
		"-o", "UserKnownHostsFile="+known, "-o", "HostKeyAlias="+strings.SplitN(line, " ", 2)[0],
		"-o", "ProxyCommand="+strings.Join(proxy.Args, " "), Root+"@target", "hostname")
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != target.Hostname() {
		t.Errorf("through the jump host: %v: %s", err, out)
	}
}

func TestDelayIsSeenBySSH(t *testing.T) {
	const eachWay, roundTrips = 50 * time.Millisecond, 6
	h := ForTest(t)
	h.Link().Delay(eachWay)
	started := time.Now()
	overSSH(t, h, Root, "true")
	// Connection, banner, keys, login, channel and command at least.
	if took := time.Since(started); took < roundTrips*2*eachWay {
		t.Errorf("a command takes %v, less than %d round trips of %v", took, roundTrips, 2*eachWay)
	}
}
