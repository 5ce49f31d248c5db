package sshlink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/burstlet/burstlet/backend"
)

const (
	// sessionsUsed is how many sessions a connection has at once: the one with the
	// pty, the helper, and a question to the shell.
	sessionsUsed = 3
	// tolerableSkew is a difference of clocks that nobody notices.
	tolerableSkew = 2 * time.Second
	// closedPort is one on which no host listens.
	closedPort = "127.0.0.1:1"
)

// Diagnose examines all that the link needs, and at the runtime's socket, over a
// connection of its own; the link need not run. It stops where what follows
// cannot work. Nothing is left on the host.
func (l *Link) Diagnose(ctx context.Context, runtimeSocket string) []backend.Finding {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	line := newLine("doctor", l.cfg, l.dial, newSignal())
	defer line.work.Wait()
	c, err := line.connect(ctx)
	findings := connectFindings(line.cfg, err)
	if err != nil {
		return findings
	}
	defer c.fail(errStopped)
	d := &diagnosis{connection: c, cfg: l.cfg, socket: runtimeSocket, findings: findings}
	d.pty()
	d.sessions(ctx)
	d.forwarding(ctx)
	d.findings = append(d.findings, DiagnoseRuntime(ctx, d, d.hop.User, runtimeSocket)...)
	d.commands(ctx)
	return d.findings
}

// connectFindings are what an attempt to connect shows.
func connectFindings(cfg Config, err error) []backend.Finding {
	steps := []struct {
		at         stage
		what, good string
		unchecked  bool
	}{
		{stageSetup, "keys and known hosts", "can be read", false},
		{stageReach, "reachable", cfg.Address, false},
		{stageHostKey, "host key", "is the one in " + cfg.KnownHostsFile, true},
		{stageAuthenticate, "login", "as " + cfg.User, false},
	}
	var failed *connectError
	if err != nil && !errors.As(err, &failed) {
		return []backend.Finding{{What: "connect", Detail: err.Error()}}
	}
	var findings []backend.Finding
	for _, s := range steps {
		if failed != nil && failed.stage == s.at {
			return append(findings, backend.Finding{
				What: s.what, Detail: fmt.Sprintf("%s: %v", failed.hop.Address, failed.err), Advice: failed.advice,
			})
		}
		f := backend.Finding{What: s.what, OK: true, Detail: s.good}
		if s.unchecked && cfg.InsecureIgnoreHostKey {
			f = backend.Finding{
				What: s.what, Warn: true, Detail: "is not checked: whoever answers gets the pods and their secrets",
				Advice: "set ssh.knownHostsFile instead of ssh.insecureIgnoreHostKey",
			}
		}
		findings = append(findings, f)
	}
	return findings
}

// diagnosis examines a host that we are logged in to.
type diagnosis struct {
	*connection
	cfg      Config
	socket   string // of the runtime
	findings []backend.Finding
}

func (d *diagnosis) ok(what, detail string) {
	d.findings = append(d.findings, backend.Finding{What: what, OK: true, Detail: detail})
}

func (d *diagnosis) warn(what, detail, advice string) {
	d.findings = append(d.findings, backend.Finding{What: what, Warn: true, Detail: detail, Advice: advice})
}

func (d *diagnosis) fail(what string, err error, advice string) {
	d.findings = append(d.findings, backend.Finding{What: what, Detail: err.Error(), Advice: advice})
}

func (d *diagnosis) pty() {
	if d.noTerminal != nil {
		d.warn(
			"pty", d.noTerminal.Error()+": each small call takes some milliseconds longer",
			"set PermitTTY yes in the host's sshd_config",
		)
		return
	}
	d.ok("pty", "granted: small calls are not held back")
}

// sessions opens as many sessions as are used at once.
func (d *diagnosis) sessions(ctx context.Context) {
	open := 1
	if d.noTerminal != nil {
		open = 0
	}
	var opened []channel
	for ; open < sessionsUsed; open++ {
		ch, err := d.open(ctx, "session", nil)
		if err != nil {
			d.fail("sessions", fmt.Errorf("session %d of %d: %w", open+1, sessionsUsed, explainSession(err)),
				fmt.Sprintf("set MaxSessions %d or more in the host's sshd_config", sessionsUsed))
			break
		}
		opened = append(opened, ch)
	}
	if open == sessionsUsed {
		d.ok("sessions", fmt.Sprintf("%d at once", sessionsUsed))
	}
	for _, ch := range opened {
		// The next checks need the room. An error is theirs to find.
		_, _ = do(ctx, d.connection, func() (struct{}, error) {
			err := ch.Close()
			ssh.DiscardRequests(ch.requests) // until the host has closed it too
			return struct{}{}, err
		}, func(struct{}) {})
	}
}

// forwarding connects to where nobody listens: being refused there is a success.
func (d *diagnosis) forwarding(ctx context.Context) {
	conn, err := d.dial(ctx, "tcp", closedPort)
	switch {
	case err == nil:
		_ = conn.Close() // somebody listens after all
	case errors.Is(err, syscall.ECONNREFUSED):
	case errors.Is(err, backend.ErrDenied):
		d.fail(
			"port forwarding", cause(err),
			"probes, exec and port-forward need it: set AllowTcpForwarding yes in the host's sshd_config",
		)
		return
	default:
		d.fail("port forwarding", cause(err), "see the log of the host's sshd")
		return
	}
	d.ok("port forwarding", "allowed")
}

// commands examines what needs a shell.
func (d *diagnosis) commands(ctx context.Context) {
	m, err := d.identify(ctx)
	if err != nil {
		d.fail("shell", err, "give the user a login shell, without ForceCommand; the host must run Linux")
		return
	}
	d.ok("shell", fmt.Sprintf("%s %s", m.system, m.hardware))
	if err := d.becomeRoot(ctx, m); err != nil {
		d.fail("root", err, "")
		return
	}
	if m.root {
		d.ok("root", "logged in as root")
	} else {
		d.ok("root", "by sudo -n")
	}
	h, err := startHelper(ctx, d.cfg, d.connection, false)
	if err != nil {
		d.fail("helper", err, "")
		return
	}
	d.ok("helper", "runs")
	d.machine(ctx, h)
	// How it ended is of no interest once it answered.
	_ = h.end(ctx)
}

// host reports what the helper knows.
func (d *diagnosis) machine(ctx context.Context, h *running) {
	switch skew := h.offset.Abs() - h.doubt; {
	case skew > tolerableSkew:
		d.warn(
			"clock", fmt.Sprintf("the host's is %s off", h.offset.Round(time.Millisecond)), "run an NTP client on both machines",
		)
	default:
		d.ok(
			"clock", fmt.Sprintf("%s off, give or take %s", h.offset.Round(time.Millisecond), h.doubt.Round(time.Millisecond)),
		)
	}
	facts, err := h.client.Facts(ctx)
	if err != nil {
		d.fail("host", err, "")
		return
	}
	d.findings = append(d.findings, DiagnoseHost(facts, d.socket, d.cfg.Tenant)...)
	d.findings = append(d.findings, d.cfg.Tenant.DiagnoseShutdown(ctx, h.client)...)
}

// cause is a dial's error without the address, which its finding names.
func cause(err error) error {
	var opErr *net.OpError
	if errors.As(err, &opErr) {
		return opErr.Err
	}
	return err
}
