package intask

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Report is the last thing that a supervisor writes to stderr: why and with what
// words its container ended.
type Report struct {
	// Exit is the container's exit code: 128+n for a signal.
	Exit int `json:"exit"`
	// Reason is set where it is not told by the code: one of the Reason constants.
	Reason string `json:"reason,omitempty"`
	// Message is the termination message, or why there was no start.
	Message string `json:"message,omitempty"`
	// FromLogs is true where the message is the end of the log
	// (FallbackToLogsOnError, a failure, and no message of its own).
	FromLogs bool `json:"fromLogs,omitempty"`
	// Probe is what ended the container, in the kubelet's words: "Liveness probe
	// failed: …".
	Probe string `json:"probe,omitempty"`
	// Hook is the postStart hook that ended it.
	Hook *HookFailure `json:"hook,omitempty"`
	// PreStop is the preStop hook, if it failed: that ends nothing.
	PreStop *HookFailure `json:"preStop,omitempty"`
}

// Reasons of a Report, the kubelet's and containerd's.
const (
	ReasonOOMKilled     = "OOMKilled"
	ReasonStartError    = "StartError"
	ReasonConfigError   = "CreateContainerConfigError"
	ReasonPostStartHook = "PostStartHookError"
)

// HookFailure is a hook that failed.
type HookFailure struct {
	// What is the hook: "Exec lifecycle hook ([false])".
	What string `json:"what"`
	// Why is the error and, of a command, what it wrote.
	Why string `json:"why"`
}

// Message is the kubelet's. pod is "name_namespace(uid)".
func (h HookFailure) Message(container, pod string) string {
	return fmt.Sprintf("%s for Container %q in Pod %q failed - %s", h.What, container, pod, h.Why)
}

// reportMark begins a report. No program is likely to write it.
const reportMark = "\x1eburstlet "

// maxReport keeps the line in one piece: runtimes cut lines of 16 KiB.
const maxReport = 15 << 10

// line is the report as it is written.
func (r Report) line() (string, error) {
	b, err := r.bounded()
	return reportMark + string(b) + "\n", err
}

// bounded shortens the report until it keeps within its bound, and encodes it.
func (r *Report) bounded() ([]byte, error) {
	for {
		b, err := json.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("encode the report: %w", err)
		}
		if len(b) <= maxReport || !r.shorten() {
			return b, nil
		}
	}
}

// shorten halves the longest text; false where there is nothing to take away.
func (r *Report) shorten() bool {
	longest := &r.Message
	texts := []*string{&r.Probe}
	for _, hook := range []**HookFailure{&r.Hook, &r.PreStop} {
		if *hook != nil {
			own := **hook // the caller's stays as it is
			*hook = &own
			texts = append(texts, &own.What, &own.Why)
		}
	}
	for _, t := range texts {
		if len(*t) > len(*longest) {
			longest = t
		}
	}
	if len(*longest) < utf8.UTFMax {
		return false
	}
	*longest = strings.ToValidUTF8((*longest)[:len(*longest)/2], "")
	return true
}

// CutReport takes a report off a line of a container's log. text is what the
// container itself wrote on that line, without an end of line; ok is false for a
// line without a report, and text is the line.
func CutReport(line string) (text string, r Report, ok bool) {
	text, rest, found := strings.Cut(line, reportMark)
	if !found || json.Unmarshal([]byte(strings.TrimRight(rest, "\r\n")), &r) != nil {
		return line, Report{}, false
	}
	return text, r, true
}
