package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/crilog"
)

const (
	// messagesDir is in the pod's log directory and goes with it. Log collectors
	// look for *.log in directories of containers, whose names have no dot.
	messagesDir = ".termination-messages"
	// maxMessageFile, maxMessageLog and maxMessageLines bound a termination
	// message (kubelet: MaxContainerTerminationMessageLength, …LogLength, …LogLines).
	maxMessageFile        = 4096
	maxMessageLog         = 2048
	maxMessageLines int64 = 80
)

// messageFile is the host's file that is mounted at terminationMessagePath.
func (r *remote) messageFile(pod backend.Ref, container string, attempt int) string {
	return path.Join(r.podLogDir(pod), messagesDir, container+"_"+strconv.Itoa(attempt))
}

// messageMount is none for a container without a path, which the API would
// have set.
func (r *remote) messageMount(spec backend.ContainerSpec) []*runtimeapi.Mount {
	if spec.Container.TerminationMessagePath == "" {
		return nil
	}
	return []*runtimeapi.Mount{{
		ContainerPath:  spec.Container.TerminationMessagePath,
		HostPath:       r.messageFile(podRef(spec.Pod), spec.Container.Name, spec.Attempt),
		SelinuxRelabel: true,
	}}
}

func podRef(pod *corev1.Pod) backend.Ref {
	return backend.Ref{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}
}

// makeMessageFile leaves a file that is there: the container may run already.
func (r *remote) makeMessageFile(ctx context.Context, spec backend.ContainerSpec) error {
	for _, m := range r.messageMount(spec) {
		if err := r.host.MakeShared(ctx, m.GetHostPath()); err != nil {
			return fmt.Errorf("make file of termination message: %w", err)
		}
	}
	return nil
}

// addMessage completes the message of an ended container by what it left in its
// file or, as its policy says, at the end of its log (kubelet:
// getTerminationMessage). What cannot be read is said in its place.
func (r *remote) addMessage(ctx context.Context, s *runtimeapi.ContainerStatus) {
	if s.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
		return
	}
	text := r.messageOfFile(ctx, s)
	policy := corev1.TerminationMessagePolicy(s.GetAnnotations()[annotationTermMessagePolicy])
	if text == "" && policy == corev1.TerminationMessageFallbackToLogsOnError && s.GetExitCode() != 0 {
		text = r.messageOfLog(ctx, s)
	}
	switch {
	case text == "":
	case s.GetMessage() == "":
		s.Message = text
	default:
		s.Message += ": " + text
	}
}

func (r *remote) messageOfFile(ctx context.Context, s *runtimeapi.ContainerStatus) string {
	inside := s.GetAnnotations()[annotationTermMessagePath]
	for _, m := range s.GetMounts() {
		if inside == "" || m.GetContainerPath() != inside {
			continue
		}
		text, err := r.readEnd(ctx, m.GetHostPath())
		if err != nil && !isNotExist(err) {
			return fmt.Sprintf("Error on reading termination log %s: %v", m.GetHostPath(), err)
		}
		return text
	}
	return ""
}

// readEnd reads the last bytes of a file, as many as a message may have.
func (r *remote) readEnd(ctx context.Context, name string) (text string, err error) {
	f, err := r.host.Open(ctx, name)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return "", err
	}
	if _, err := f.Seek(max(0, size-maxMessageFile), io.SeekStart); err != nil {
		return "", err
	}
	content, err := io.ReadAll(io.LimitReader(f, maxMessageFile))
	return string(content), err
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
	f, err := r.host.Open(ctx, s.GetLogPath())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := maxMessageLines
	if err := seekTail(f, &lines); err != nil {
		return err
	}
	c := &logCopy{
		logs: logs{r}, ref: backend.ContainerRef{Name: s.GetMetadata().GetName()},
		lines: crilog.NewLines(f), out: crilog.NewWriter(out, crilog.Options{}),
	}
	return c.run(ctx)
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
