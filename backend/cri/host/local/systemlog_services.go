package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
)

const (
	// serviceLogTime is how long services' logs may take (kubelet: nodeLogQuery.Copy).
	serviceLogTime = 30 * time.Second
	// maxServiceLog bounds what is told of them.
	maxServiceLog = 64 << 20
	// journalLeft is how long the output of a journalctl that was killed is waited for.
	journalLeft = 2 * time.Second
)

var errServiceLogCut = errors.New("more was logged than is told at once")

// serviceLog is the text about services' logs, as it is made. Closing it ends the making.
type serviceLog struct {
	*io.PipeReader
	cancel context.CancelFunc
	done   chan struct{}
}

// Close waits until nothing of it runs.
func (s *serviceLog) Close() error {
	s.cancel()
	err := s.PipeReader.Close()
	<-s.done
	return err
}

// logsOfServices tells what the journal has of services, and the files of those that it
// does not know. What is wrong stands in the text (kubelet: nodeLogQuery.copyForBoot).
func (h *Host) logsOfServices(ctx context.Context, r host.SystemLogRequest) io.ReadCloser {
	ctx, cancel := context.WithCancel(ctx)
	out, in := io.Pipe()
	s := &serviceLog{out, cancel, make(chan struct{})}
	go func() {
		defer close(s.done)
		stop := context.AfterFunc(ctx, func() { in.CloseWithError(ctx.Err()) }) // nobody may read on
		defer stop()
		limit, cancel := context.WithTimeout(ctx, serviceLogTime)
		defer cancel()
		err := h.tellServices(limit, &limitedWriter{in, maxServiceLog}, r)
		const less = "ask for less, with tailLines, sinceTime or untilTime"
		switch {
		case ctx.Err() != nil:
			err = ctx.Err() // what ended with it may not say so
		case errors.Is(err, errServiceLogCut):
			_, err = fmt.Fprintf(in, "\nerror: cut after %d MiB: %s\n", maxServiceLog>>20, less)
		case limit.Err() != nil:
			_, err = fmt.Fprintf(in, "\nerror: cut after %s: %s\n", serviceLogTime, less)
		}
		in.CloseWithError(err)
	}()
	return s
}

// tellServices writes the text.
func (h *Host) tellServices(ctx context.Context, w io.Writer, r host.SystemLogRequest) error {
	units := h.journalUnits(ctx)
	var journal, files []string
	for _, service := range r.Services {
		if strings.Contains(units, service+".service") {
			journal = append(journal, service)
		} else {
			files = append(files, service)
		}
	}
	if len(journal) > 0 {
		if err := h.tellJournal(ctx, w, journal, r); err != nil {
			return err
		}
	}
	options := !r.Since.IsZero() || !r.Until.IsZero() || r.TailLines != nil || r.Boot != nil || r.Pattern != ""
	if len(files) > 0 && options {
		_, err := fmt.Fprintf(
			w, "\noptions present and query resolved to log files for %v\ntry without specifying options\n", files,
		)
		return err
	}
	for _, service := range files {
		if err := h.tellFile(ctx, w, service); err != nil {
			return err
		}
	}
	return nil
}

// journalUnits are the units that the journal knows; none where there is no journal.
func (h *Host) journalUnits(ctx context.Context) string {
	units, err := exec.CommandContext(ctx, h.opts.JournalctlCommand, "--field", "_SYSTEMD_UNIT").CombinedOutput()
	if err != nil {
		return ""
	}
	return string(units)
}

// journalArgs are a kubelet's, but for times: it writes them in UTC, and journalctl reads
// them in the host's time zone.
func journalArgs(services []string, r host.SystemLogRequest) []string {
	args := []string{"--utc", "--no-pager", "--output=short-precise"}
	if !r.Since.IsZero() {
		args = append(args, fmt.Sprintf("--since=@%d", r.Since.Unix()))
	}
	if !r.Until.IsZero() {
		args = append(args, fmt.Sprintf("--until=@%d", r.Until.Unix()))
	}
	if r.TailLines != nil {
		args = append(args, "--pager-end", fmt.Sprintf("--lines=%d", *r.TailLines))
	}
	for _, service := range services {
		args = append(args, "--unit="+service)
	}
	if r.Pattern != "" {
		args = append(args, "--grep="+r.Pattern)
	}
	if r.Boot != nil {
		args = append(args, "--boot", strconv.Itoa(*r.Boot))
	}
	return args
}

func (h *Host) tellJournal(ctx context.Context, w io.Writer, services []string, r host.SystemLogRequest) error {
	cmd := exec.CommandContext(ctx, h.opts.JournalctlCommand, journalArgs(services, r)...)
	// What one of the two writes fails with ends the other, too.
	told := &firstError{w: w}
	cmd.Stdout, cmd.Stderr = told, told
	cmd.WaitDelay = journalLeft
	err := cmd.Run()
	_, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case told.err != nil:
		return told.err
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil, exited: // it has said why
		return nil
	default:
		_, err = io.WriteString(w, "\nerror: journal output not available\n")
		return err
	}
}

// tellFile copies the first file that is a service's log by its name (kubelet:
// heuristicsCopyFileLogs).
func (h *Host) tellFile(ctx context.Context, w io.Writer, service string) error {
	for _, name := range []string{service, service + ".log", service + "/" + service + ".log"} {
		f, size, err := h.systemLogFile(name)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EISDIR):
			continue
		case err != nil:
			_, err = fmt.Fprintf(w, "\nerror getting log for %s: %v\n", service, err)
			return err
		}
		_, err = io.Copy(w, &contextReader{ctx.Err, io.LimitReader(f, size)})
		return errors.Join(err, f.Close())
	}
	_, err := fmt.Fprintf(w, "\nlog not found for %s\n", service)
	return err
}

// limitedWriter takes so many bytes.
type limitedWriter struct {
	w    io.Writer
	left int
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	n, err := l.w.Write(p[:min(len(p), l.left)])
	if l.left -= n; err == nil && n < len(p) {
		err = errServiceLogCut
	}
	return n, err
}

// firstError remembers what failed.
type firstError struct {
	w   io.Writer
	err error
}

func (f *firstError) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err != nil && f.err == nil {
		f.err = err
	}
	return n, err
}
