package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/fence"
)

// A node's leaders are recorded in a file beside its pods: that is one place for all that
// reach this host, in containers too, and outlives a reboot.

// maxRecord is more than a record has bytes.
const maxRecord = 4 << 10

// recordFile is where a node's record stands. No pod's directory has such a name.
func recordFile(root, node string) string {
	hash := fnv.New64a()
	_, _ = io.WriteString(hash, node) // it never fails
	return filepath.Join(root, fmt.Sprintf(".leader-%016x.json", hash.Sum64()))
}

// recorded is the record in the file. A record that cannot be parsed, as after a power
// failure, counts as none: then all changes are refused until a leader takes the node.
func recorded(path string) (fence.Record, error) {
	text, err := readSmall(path, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return fence.Record{}, nil
	}
	if err != nil {
		return fence.Record{}, err
	}
	var r fence.Record
	if json.Unmarshal(text, &r) != nil {
		return fence.Record{}, nil //nolint:nilerr // as above
	}
	return r, nil
}

// Leader implements [host.Host].
func (h *Host) Leader(ctx context.Context, q host.LeaderRequest) (fence.Record, error) {
	path := recordFile(q.Root, q.Node)
	if q.Change == fence.Look {
		return recorded(path)
	}
	if err := mkdirAll(q.Root, kubeletDirMode); err != nil {
		return fence.Record{}, err
	}
	dir, err := lockDir(ctx, q.Root)
	if err != nil {
		return fence.Record{}, err
	}
	defer dir.Close() //nolint:errcheck // it was only locked
	before, err := recorded(path)
	if err != nil {
		return fence.Record{}, err
	}
	after := q.Apply(before)
	switch after {
	case before:
		return before, nil
	case fence.Record{}:
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fence.Record{}, err
		}
		return after, nil
	}
	return after, writeRecord(path, after)
}

// writeRecord leaves no record at all where there is no room for one: that of a former
// leader would let its changes pass.
func writeRecord(path string, r fence.Record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	err = replaceFile(path, text, 0o600)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		if gone := os.Remove(path); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			return fmt.Errorf("no room for the leader's record, and the former one stays: %w", gone)
		}
	}
	return err
}

// led is nil if whoever asks for a change may have it.
func (h *Host) led(ctx context.Context) error {
	l := host.LeaderOf(ctx)
	if l.Holder == "" {
		return nil
	}
	r, err := recorded(recordFile(l.Root, l.Node))
	if err != nil {
		return fmt.Errorf("find out who leads the node: %w", err)
	}
	return r.Check(l.Holder)
}
