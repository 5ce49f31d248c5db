package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/class"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// The ports of a host are claimed in the marks of pods' log directories, as the ids of user
// namespaces are. The pods of one node are admitted beside each other by its process: only
// claims of other nodes are looked at.

// claimPorts records a pod's ports, unless another node's pod has one of them.
func (h *Host) claimPorts(ctx context.Context, p host.Ports) error {
	own := filepath.Dir(p.Mark)
	logs, err := lockDir(ctx, filepath.Dir(own))
	if err != nil {
		return err
	}
	defer logs.Close() //nolint:errcheck // it was only locked
	mark, err := readMark(own)
	if err != nil {
		return err
	}
	names, err := logs.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == filepath.Base(own) {
			continue
		}
		dir := filepath.Join(logs.Name(), name)
		other, err := readMark(dir)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			continue // not a pod of ours
		}
		if err != nil {
			return err
		}
		taken, ok := conflict(p.Ports, other.Ports)
		if !ok || other.Node == mark.Node {
			continue
		}
		claims, err := h.claims(dir, other)
		if err != nil {
			return err
		}
		if claims {
			namespace, rest, _ := strings.Cut(name, "_")
			pod, _, _ := strings.Cut(rest, "_")
			return class.Give(class.ErrCapacity, fmt.Errorf("host port %s %d is taken by pod %s/%s of node %s, which has "+
				"the same host: "+
				"use another port, or wait until that pod has ended", taken.Protocol, taken.Number, namespace, pod, other.Node))
		}
	}
	mark.Ports = p.Ports
	// Written again at each attempt, which makes it young.
	return replaceFile(p.Mark, mark.Bytes(), 0o644)
}

// claims is true of a pod in which something runs, or which is being launched.
func (h *Host) claims(dir string, mark host.Ownership) (bool, error) {
	info, err := os.Lstat(filepath.Join(dir, host.LogMark))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if time.Since(info.ModTime()) < sweepAge {
		return true, nil
	}
	cgroup := mark.PodCgroup()
	if cgroup == nil {
		return false, nil
	}
	levels, hs, err := h.locate(*cgroup)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(hs, func(hi hierarchy) bool { return populated(hi.at(levels)) }), nil
}

// conflict is a port that two pods cannot both have.
func conflict(wanted, has []host.Port) (host.Port, bool) {
	for _, w := range wanted {
		if slices.ContainsFunc(has, func(p host.Port) bool {
			return p.Protocol == w.Protocol && p.Number == w.Number && (p.IP == w.IP || anyAddress(p.IP) || anyAddress(w.IP))
		}) {
			return w, true
		}
	}
	return host.Port{}, false
}

// anyAddress is true of what stands for all addresses of the host.
func anyAddress(ip string) bool { return ip == "" || ip == "0.0.0.0" || ip == "::" }
