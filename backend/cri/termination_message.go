package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/host"
)

const (
	// maxMessageFile, maxMessageLog and maxMessageLines bound a termination
	// message (kubelet: MaxContainerTerminationMessageLength, …LogLength, …LogLines).
	maxMessageFile        = 4096
	maxMessageLog         = 2048
	maxMessageLines int64 = 80
	// logLag is how long after its end the runtime may still write a container's log.
	logLag = 5 * time.Second
)

// addMessage completes the message of an ended container by what it left in its
// file or, as its policy says, at the end of its log (kubelet:
// getTerminationMessage). What cannot be read is said in its place. It is not final
// while a log that is empty may only be late.
func (r *remote) addMessage(ctx context.Context, s *runtimeapi.ContainerStatus) (final bool) {
	if s.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
		return true
	}
	final = true
	text := r.messageOfFile(ctx, s)
	policy := corev1.TerminationMessagePolicy(s.GetAnnotations()[convert.AnnotationTermMessagePolicy])
	if text == "" && policy == corev1.TerminationMessageFallbackToLogsOnError && s.GetExitCode() != 0 {
		text = r.messageOfLog(ctx, s)
		final = text != "" || r.clock.theirs(time.Now()).Sub(time.Unix(0, s.GetFinishedAt())) > logLag
	}
	switch {
	case text == "":
	case s.GetMessage() == "":
		s.Message = text
	default:
		s.Message += ": " + text
	}
	return final
}

func (r *remote) messageOfFile(ctx context.Context, s *runtimeapi.ContainerStatus) string {
	inside := s.GetAnnotations()[convert.AnnotationTermMessagePath]
	for _, m := range s.GetMounts() {
		if inside == "" || m.GetContainerPath() != inside {
			continue
		}
		text, err := r.host.ReadFile(ctx, m.GetHostPath(), maxMessageFile)
		if err != nil && !isNotExist(err) {
			return fmt.Sprintf("Error on reading termination log %s: %v", m.GetHostPath(), err)
		}
		return string(text)
	}
	return ""
}

func (r *remote) messageOfLog(ctx context.Context, s *runtimeapi.ContainerStatus) string {
	var end lastBytes
	// A container that was never started may have no log.
	if err := r.copyLogEnd(ctx, s, &end); err != nil && !isNotExist(err) {
		return fmt.Sprintf("Error on reading termination message from logs: %v", err)
	}
	return string(end.kept)
}

func (r *remote) copyLogEnd(ctx context.Context, s *runtimeapi.ContainerStatus, out io.Writer) (err error) {
	lines := maxMessageLines
	end, err := r.host.Log(ctx, host.LogRequest{Path: s.GetLogPath(), Tail: &lines})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end.Close()) }()
	_, err = io.Copy(out, end)
	return err
}

// lastBytes keeps the end of what is written to it.
type lastBytes struct{ kept []byte }

// Write never fails.
func (b *lastBytes) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p...)
	if over := len(b.kept) - maxMessageLog; over > 0 {
		b.kept = append(b.kept[:0], b.kept[over:]...)
	}
	return len(p), nil
}
