package local

import (
	"context"
	"net"
	"os"
	"sync"

	"github.com/burstlet/burstlet/backend/cri/host"
)

var _ host.Host = (*Host)(nil)

// Options say where things are; the zero value is right on a usual host.
type Options struct {
	// Root of the pods' directories, for Facts; empty measures "/".
	Root string
	// CgroupRoot is where cgroups are mounted, by default /sys/fs/cgroup.
	CgroupRoot string
	// ProcRoot, SysRoot, EtcRoot and RunRoot are by default /proc, /sys, /etc and
	// /run.
	ProcRoot, SysRoot, EtcRoot, RunRoot string
	// DevRoot is where devices are, by default /dev.
	DevRoot string
	// LogRoot is where the host's logs are, by default /var/log.
	LogRoot string
	// MountCommand, SystemctlCommand and JournalctlCommand are found in PATH unless they
	// are paths; by default mount, systemctl and journalctl.
	MountCommand, SystemctlCommand, JournalctlCommand string
	// Dial connects to the socket of a container runtime; by default as the kernel does.
	Dial func(ctx context.Context, socket string) (net.Conn, error)
}

// Host does the host operations here. Its methods may be called at once.
type Host struct {
	opts Options
	// usage is what was measured lately.
	usage usageCache
	// calls of the container runtime that are under way, and the locks that order them.
	calls calls
	turns turns
	// logs are those that are followed.
	logs logWatch
	// delay is the lock that delays shutdowns.
	delay shutdownLock

	// keep is how a keeper is to rotate; nil: no keeper was asked for.
	keepMu sync.Mutex
	keep   *host.Rotation
	// attended are the locks of nodes that this process attends to, by their files.
	attended map[string]*os.File
}

// New makes a Host; it does nothing yet.
func New(o Options) *Host {
	for _, d := range []struct {
		option *string
		value  string
	}{
		{&o.Root, "/"},
		{&o.CgroupRoot, "/sys/fs/cgroup"},
		{&o.ProcRoot, "/proc"},
		{&o.SysRoot, "/sys"},
		{&o.EtcRoot, "/etc"},
		{&o.RunRoot, "/run"},
		{&o.DevRoot, "/dev"},
		{&o.LogRoot, "/var/log"},
		{&o.MountCommand, "mount"},
		{&o.SystemctlCommand, "systemctl"},
		{&o.JournalctlCommand, "journalctl"},
	} {
		if *d.option == "" {
			*d.option = d.value
		}
	}
	if o.Dial == nil {
		o.Dial = dialSocket
	}
	return &Host{opts: o, calls: calls{dial: o.Dial}}
}

func dialSocket(ctx context.Context, socket string) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, "unix", socket)
}
