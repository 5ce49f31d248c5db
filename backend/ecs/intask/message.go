package intask

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// The termination message (Kubernetes API: terminationMessagePath; kubelet:
// MaxContainerTerminationMessageLength).
const (
	defaultMessagePath = "/dev/termination-log"
	maxMessage         = 4096
)

// makeMessage makes an empty file for the termination message, for everybody to
// write to, as the kubelet's. A container that was started again begins anew.
func makeMessage(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("terminationMessagePath: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o666)
	if err != nil {
		return fmt.Errorf("terminationMessagePath: %w", err)
	}
	if err := errors.Join(f.Chmod(0o666), f.Close()); err != nil {
		return fmt.Errorf("terminationMessagePath: %w", err)
	}
	return nil
}

// readMessage is the end of it. What the container put in the place of the file, a
// link or a pipe, is not read.
func readMessage(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no file", path)
	}
	b, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-maxMessage), maxMessage))
	return strings.ToValidUTF8(string(b), "\uFFFD"), err
}

// words are the message of a container that has ended: its own, or that it is in
// the log.
func (s *supervisor) words(r *Report) {
	text, err := readMessage(s.messagePath())
	if err != nil {
		// As the kubelet shows it.
		text = fmt.Sprintf("Error on reading termination log %s: %v", s.messagePath(), err)
	}
	if text == "" && s.trouble != nil {
		text = s.trouble.Error()
	}
	r.Message = text
	r.FromLogs = text == "" && s.spec.MessageFromLogs && r.Exit != 0
}

func (s *supervisor) messagePath() string {
	if s.spec.MessagePath == "" {
		return defaultMessagePath
	}
	return s.spec.MessagePath
}
