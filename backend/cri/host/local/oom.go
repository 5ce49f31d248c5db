package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/class"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// maxKernelRecord is more than a record of the kernel's log may have: a read with less room
// fails.
const maxKernelRecord = 16 << 10

// AwaitOOM implements [host.Host]. A mark is the boot's id and the sequence number of the
// first record that was not read. Each call reads the log from its beginning: it is kept in
// memory, and what a record means may stand in one before.
func (h *Host) AwaitOOM(ctx context.Context, r host.OOMRequest) (host.OOMKills, error) {
	l, err := h.openKernelLog()
	if err != nil {
		return host.OOMKills{}, err
	}
	defer func() { _ = l.file.Close() }() // it was only read
	stop := context.AfterFunc(ctx, func() { _ = l.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	boot := h.bootID()
	from, next, err := afterMark(r.After, boot)
	if err != nil {
		return host.OOMKills{}, err
	}
	var found host.OOMKills
	var parser oomParser
	for {
		wait := r.After != "" && len(found.Kills) == 0
		records, err := l.read(wait)
		switch {
		case err != nil && ctx.Err() != nil:
			return host.OOMKills{}, fmt.Errorf("await OOM kills: %w", context.Cause(ctx))
		case errors.Is(err, errNoMoreNow):
			found.Mark = boot + "/" + strconv.FormatUint(next, 10)
			return found, nil
		case err != nil:
			return host.OOMKills{}, err
		}
		for _, record := range records {
			next = record.sequence + 1
			kill, is := parser.kill(record)
			if !is || record.sequence < from {
				continue
			}
			found.Kills = append(found.Kills, kill)
			if r.MaxKills > 0 && len(found.Kills) == r.MaxKills {
				found.Mark = boot + "/" + strconv.FormatUint(next, 10)
				return found, nil
			}
		}
	}
}

// afterMark is the first record that is to be told of, none for who knows no mark, and the next
// one where the log is empty. After a reboot all are.
func afterMark(mark, boot string) (from, next uint64, err error) {
	of, sequence, ok := strings.Cut(mark, "/")
	switch {
	case mark == "":
		return math.MaxUint64, 0, nil
	case !ok || of != boot:
		return 0, 0, nil
	}
	if from, err = strconv.ParseUint(sequence, 10, 63); err != nil {
		return 0, 0, class.Errorf(class.ErrInvalid, "await OOM kills after %q, which is no mark", mark)
	}
	return from, from, nil
}

// errNoMoreNow means that the log has been read to its end.
var errNoMoreNow = errors.New("no more records now")

// kernelLog is /dev/kmsg from its beginning.
type kernelLog struct {
	file *os.File
	raw  syscall.RawConn
	room []byte
}

func (h *Host) openKernelLog() (*kernelLog, error) {
	path := filepath.Join(h.opts.DevRoot, "kmsg")
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, unreadable(err)
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", path, err), f.Close())
	}
	return &kernelLog{f, raw, make([]byte, maxKernelRecord)}, nil
}

func unreadable(why error) error {
	return class.Errorf(class.ErrUnsupported, "the kernel's log, which tells of OOM kills, cannot be read: %w", why)
}

// read returns what comes next, and waits for it if that is wanted. Records that the kernel
// has dropped meanwhile are left out.
func (l *kernelLog) read(wait bool) ([]kernelRecord, error) {
	var n int
	var failed error
	err := l.raw.Read(func(fd uintptr) bool {
		for {
			n, failed = unix.Read(int(fd), l.room) //nolint:gosec // a descriptor
			// EPIPE: the next ones were overwritten, and the reader now stands behind them.
			if !errors.Is(failed, unix.EINTR) && !errors.Is(failed, unix.EPIPE) {
				return !wait || !errors.Is(failed, unix.EAGAIN)
			}
		}
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the kernel's log: %w", err)
	case errors.Is(failed, unix.EAGAIN):
		return nil, errNoMoreNow
	case errors.Is(failed, unix.EPERM), errors.Is(failed, unix.EACCES):
		return nil, unreadable(failed)
	case failed != nil:
		return nil, fmt.Errorf("read the kernel's log: %w", failed)
	case n == 0:
		return nil, fmt.Errorf("read the kernel's log: %w", io.ErrUnexpectedEOF)
	}
	var records []kernelRecord
	for line := range bytes.Lines(l.room[:n]) {
		if r, ok := parseKernelRecord(bytes.TrimRight(line, "\n")); ok {
			records = append(records, r)
		}
	}
	return records, nil
}
