package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/class"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// The ids of pods' user namespaces are recorded in the marks of their log directories,
// which the nodes of a host have side by side, and which go when nothing of a pod is
// left. Who chooses ids holds the directory above.

// kubeletUser is whose subordinate ids pods get (kubelet: getKubeletMappings).
const kubeletUser = "kubelet"

// userRanges are the blocks of host.UserIDs ids that pods may have: count of them,
// beginning with number first.
type userRanges struct{ first, count uint32 }

// allUserRanges are those of a host that reserves none for a kubelet: all but the
// host's own users, and the last, in which the kernel has no id -1.
var allUserRanges = userRanges{first: 1, count: 1<<16 - 2}

// users is the first of the ids that a pod has, or gets now.
func (h *Host) users(ctx context.Context, u host.Users) (uint32, error) {
	logs := filepath.Dir(filepath.Dir(u.Mark))
	dir, err := lockDir(ctx, logs)
	if err != nil {
		return 0, err
	}
	defer dir.Close() //nolint:errcheck // it was only locked
	mark, err := readMark(filepath.Dir(u.Mark))
	if err != nil {
		return 0, err
	}
	if mark.FirstUser != 0 {
		return mark.FirstUser, nil
	}
	if u.Given {
		return 0, fmt.Errorf("%s does not say whose ids the pod runs with: delete the pod: %w", u.Mark, fs.ErrNotExist)
	}
	ranges, err := h.userRanges()
	if err != nil {
		return 0, err
	}
	taken, err := takenUsers(dir)
	if err != nil {
		return 0, err
	}
	first, ok := ranges.free(taken, rand.Uint32N(ranges.count))
	if !ok {
		return 0, class.Give(class.ErrUnsupported,
			fmt.Errorf(
				"all %d ranges of ids for pods with a user namespace are taken: give user %s more in /etc/subuid and /etc/subgid",
				ranges.count, kubeletUser,
			))
	}
	mark.FirstUser = first
	return first, replaceFile(u.Mark, mark.Bytes(), 0o644)
}

// free is the first id of the first free range from number start on. The start is random, so
// that it rarely hits the range of a pod that is not recorded here (kubelet: AllocationBitmap).
func (r userRanges) free(taken map[uint32]bool, start uint32) (uint32, bool) {
	for i := range r.count {
		if first := (r.first + (start+i)%r.count) * host.UserIDs; !taken[first] {
			return first, true
		}
	}
	return 0, false
}

// takenUsers are the first ids of the pods whose log directories stand there.
func takenUsers(logs *os.File) (map[uint32]bool, error) {
	names, err := logs.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	taken := map[uint32]bool{}
	for _, name := range names {
		mark, err := readMark(filepath.Join(logs.Name(), name))
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR): // not a pod of ours
		case err != nil:
			return nil, err
		case mark.FirstUser != 0:
			taken[mark.FirstUser] = true
		}
	}
	return taken, nil
}

// readMark reads the mark in a log directory, which is there.
func readMark(dir string) (host.Ownership, error) {
	mark, err := readSmall(filepath.Join(dir, host.LogMark), host.MaxMark)
	if err != nil {
		return host.Ownership{}, err
	}
	return host.ReadOwnership(mark), nil
}

// userRanges are the ranges of the user kubelet in /etc/subuid and /etc/subgid, if it
// has any.
func (h *Host) userRanges() (userRanges, error) {
	users, err := h.subordinate("subuid")
	if err != nil {
		return userRanges{}, err
	}
	groups, err := h.subordinate("subgid")
	switch {
	case err != nil:
		return userRanges{}, err
	case users != groups:
		return userRanges{}, class.Give(class.ErrUnsupported,
			fmt.Errorf("user %s has other ids in /etc/subuid than in /etc/subgid: give it the same", kubeletUser))
	case users == userRanges{}:
		return allUserRanges, nil
	}
	return users, nil
}

// subordinate reads the kubelet's line of /etc/subuid or subgid: name, first id and how
// many, with colons between. None is no error.
func (h *Host) subordinate(file string) (userRanges, error) {
	data, err := os.ReadFile(filepath.Join(h.opts.EtcRoot, file))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return userRanges{}, err
	}
	var found userRanges
	for line := range strings.Lines(string(data)) {
		name, ids, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != kubeletUser {
			continue
		}
		start, length, _ := strings.Cut(ids, ":")
		first, firstErr := strconv.ParseUint(start, 10, 32)
		count, countErr := strconv.ParseUint(length, 10, 32)
		switch {
		case firstErr != nil, countErr != nil, first == 0, count == 0,
			first%host.UserIDs != 0, count%host.UserIDs != 0, first+count >= 1<<32, found.count > 0:
			return userRanges{}, class.Give(class.ErrUnsupported,
				fmt.Errorf("/etc/%s of the host gives user %s no ids that pods can have: it must have one line %s:FIRST:COUNT, "+
					"both multiples of %d above 0",
					file, kubeletUser, kubeletUser, host.UserIDs))
		}
		found = userRanges{uint32(first / host.UserIDs), uint32(count / host.UserIDs)}
	}
	return found, nil
}
