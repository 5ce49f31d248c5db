// Package check carries out one check of a container: a command in it, or a
// connection to it, through the backend's Exec and Dial. Probes and hooks share
// it. It keeps nothing: no thresholds, no results, no connection outlives a check.
package check

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/httpget"
)

// maxOutput bounds, in bytes, what is kept of a command's output and of an answer
// (kubelet: maxReadLength, maxRespBodyLength).
const maxOutput = httpget.MaxBody

// Verdict is what one check found, in the kubelet's words.
type Verdict string

// A Warning is a success that users should hear of. Unknown comes with an error:
// nothing may be concluded from it. Silence, our own word, is a Failure for want of an
// answer in time, if the remote was within reach all that time.
const (
	Success Verdict = "success"
	Warning Verdict = "warning"
	Failure Verdict = "failure"
	Unknown Verdict = "unknown"
	Silence Verdict = "silence"
)

// Target is the container that a check is of.
type Target struct {
	Ref backend.ContainerRef
	// PodIP is where checks go that name no host.
	PodIP string
	// Container is the container as the API has it, for its named ports and the
	// literal environment that commands of probes may refer to.
	Container *corev1.Container
}

// Checker carries out checks.
type Checker struct {
	exec backend.Exec
	dial backend.Dialer
}

// New returns a Checker. Either argument may be nil: see Can.
func New(exec backend.Exec, dial backend.Dialer) *Checker {
	return &Checker{exec: exec, dial: dial}
}

// Can is false for a handler that the backend has no means for, or that is
// none.
func (c *Checker) Can(h corev1.ProbeHandler) bool {
	if h.Exec != nil {
		return c.exec != nil
	}
	return c.dial != nil && (h.HTTPGet != nil || h.TCPSocket != nil || h.GRPC != nil)
}

// Probe carries out one probe. Whatever the container answers, or fails to
// answer within the timeout, is a verdict with the output to show. An error means
// that it could not be asked: the port is not known, the command could not be
// started, the remote is not reachable. The remote itself measures the time of a
// command, so that what the way there takes does not count.
func (c *Checker) Probe(
	ctx context.Context, t Target, h corev1.ProbeHandler, timeout time.Duration,
) (Verdict, string, error) {
	if !c.Can(h) {
		return Unknown, "", backend.Errorf(backend.ErrUnsupported, "missing probe handler for container %q", t.Ref.Name)
	}
	switch {
	case h.Exec != nil:
		return c.probeExec(ctx, t, h.Exec.Command, timeout)
	case h.HTTPGet != nil:
		return c.probeHTTP(ctx, t, h.HTTPGet, timeout)
	case h.TCPSocket != nil:
		return c.probeTCP(ctx, t, h.TCPSocket, timeout)
	default:
		return c.probeGRPC(ctx, t, h.GRPC, timeout)
	}
}

// address is host:port, of the pod if no host is named.
func (t Target) address(host string, port int) (string, error) {
	if host == "" {
		host = t.PodIP
	}
	if host == "" {
		// An empty host would be the machine that dials, not the pod.
		return "", errors.New("the pod has no IP yet")
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}

// port resolves a port by number or by the name that the container gives it.
func (t Target) port(p intstr.IntOrString) (int, error) {
	number := p.IntVal
	if p.Type == intstr.String {
		var err error
		if number, err = t.namedPort(p.StrVal); err != nil {
			return 0, err
		}
	}
	if number <= 0 || number > 65535 {
		return 0, fmt.Errorf("invalid port number: %d", number)
	}
	return int(number), nil
}

// namedPort finds a port by name; a number in quotes is that number.
func (t Target) namedPort(name string) (int32, error) {
	if t.Container != nil {
		for _, p := range t.Container.Ports {
			if p.Name == name {
				return p.ContainerPort, nil
			}
		}
	}
	number, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("port %q not found in container %q", name, t.Ref.Name)
	}
	return int32(number), nil
}

// Unasked is true for errors of the way to the container, which say nothing
// about the container itself.
func Unasked(err error) bool {
	return errors.Is(err, backend.ErrUnavailable) || errors.Is(err, backend.ErrDenied) ||
		errors.Is(err, backend.ErrThrottled)
}

// late is true, when the time for a check is over, for an error that this
// explains: the context's own, or one that says nothing of the way there.
func late(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || !Unasked(err)
}
