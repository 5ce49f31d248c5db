package sim

import (
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The bounds of a termination message are the kubelet's (container runtime
// types.go: MaxContainerTerminationMessageLength and its log's).
const (
	maxMessageBytes    = 4 << 10
	maxMessageLogBytes = 2 << 10
	maxMessageLogLines = 80
)

// terminationPath is where the container leaves its last words.
func (c *container) terminationPath() string {
	if p := c.spec.Container.TerminationMessagePath; p != "" {
		return path.Clean(p)
	}
	return corev1.TerminationMessagePathDefault
}

// terminationMessage is what the container left: the file, or by its policy the
// end of its log.
func (c *container) terminationMessage(now time.Time) string {
	fallback := c.exitCode != 0 &&
		c.spec.Container.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError
	if c.started.IsZero() || (len(c.program.writes) == 0 && !fallback) {
		return ""
	}
	data, _ := c.tree().Read(c.terminationPath(), now)
	if len(data) > 0 || !fallback {
		return string(data[max(0, len(data)-maxMessageBytes):])
	}
	return c.lastLines()
}

// lastLines is the end of what the container's own program wrote to its log.
func (c *container) lastLines() string {
	var written []line
	for _, l := range c.program.lines {
		if !c.started.Add(l.at).After(c.finished) {
			written = append(written, l)
		}
	}
	var b strings.Builder
	for _, l := range written[max(0, len(written)-maxMessageLogLines):] {
		b.WriteString(l.text)
		if !l.open {
			b.WriteByte('\n')
		}
	}
	text := b.String()
	return text[max(0, len(text)-maxMessageLogBytes):]
}
