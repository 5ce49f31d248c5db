package remotehost

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// sshd is the name of its daemon and of its program.
	sshd = "sshd"
	// pollInterval is how often readiness is looked at.
	pollInterval = 10 * time.Millisecond
)

// sshdDefaults follow the options of the configuration: the first value of an
// option is the one that sshd takes.
const sshdDefaults = `Port 22
HostKey ` + hostKey + `
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
AllowTcpForwarding yes
AllowStreamLocalForwarding yes
UsePAM no
UseDNS no
PrintMotd no
PidFile none
`

// sftp cannot be said twice.
const sftp = "Subsystem sftp /usr/lib/openssh/sftp-server\n"

// SetSSHDOptions replaces Config.SSHDOptions; sshd reads them when it is started.
func (h *Host) SetSSHDOptions(options ...string) error {
	var content strings.Builder
	defaults := sshdDefaults + sftp
	for _, option := range options {
		content.WriteString(option + "\n")
		if fields := strings.Fields(strings.ToLower(option)); len(fields) > 1 && fields[0] == "subsystem" &&
			fields[1] == "sftp" {
			defaults = sshdDefaults
		}
	}
	return h.writeFile(diskFile{path: sshdConfig, content: content.String() + defaults, mode: 0o644})
}

// StartSSHD starts sshd where it was killed, and returns when it listens.
func (h *Host) StartSSHD(ctx context.Context) error {
	inside := h.inside.Load()
	if err := inside.StartDaemon(ctx, sshd); err != nil {
		return err
	}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		conn, err := h.dialSSHD(ctx)
		if err == nil {
			return conn.Close()
		}
		if !inside.Running(sshd) {
			return fmt.Errorf("sshd ended:\n%s", inside.Log())
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for sshd: %w; last: %w", ctx.Err(), err)
		}
	}
}

// KillSSHD kills sshd with all its connections (SIGKILL) and returns when no
// process of it is left. What sessions had started lives on.
func (h *Host) KillSSHD(ctx context.Context) error {
	if err := h.inside.Load().KillDaemon(ctx, sshd); err != nil {
		return err
	}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		pids, err := h.processes(sshd)
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("kill sshd: %w", err)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for sshd to end: %w", ctx.Err())
		}
	}
}

// ChangeHostKey gives sshd another host key and starts it anew; connections are
// dropped. The file of known hosts keeps the old key until TrustHostKey.
func (h *Host) ChangeHostKey(ctx context.Context) error {
	if err := h.KillSSHD(ctx); err != nil {
		return err
	}
	if err := h.makeHostKey(); err != nil {
		return err
	}
	return h.StartSSHD(ctx)
}

// processes finds the host's running processes of a program, by the machine's PIDs.
func (h *Host) processes(program string) ([]int, error) {
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", h.Pid()))
	if err != nil {
		return nil, fmt.Errorf("read namespace of host: %w", err)
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, dir := range dirs {
		// Processes come and go; one that ended has neither.
		namespace, nsErr := os.Readlink(filepath.Join(dir, "ns/pid"))
		exe, exeErr := os.Readlink(filepath.Join(dir, "exe"))
		pid, pidErr := strconv.Atoi(filepath.Base(dir))
		if nsErr == nil && exeErr == nil && pidErr == nil && namespace == own && filepath.Base(exe) == program {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// sshdAddress is where sshd is dialled from inside.
func sshdAddress() string {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), sshPort).String()
}
