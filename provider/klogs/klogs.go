// Package klogs brings what the libraries of Kubernetes log into our log.
package klogs

import (
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/log"
	"github.com/go-logr/logr"
)

// New returns a logger on top of ours. Errors of these libraries become warnings,
// because they try again or hand the error on; the rest is for debugging.
func New(entry *log.Entry) logr.Logger { return logr.New(sink{entry}) }

type sink struct{ entry *log.Entry }

var _ logr.LogSink = sink{}

func (sink) Init(logr.RuntimeInfo) {}

func (sink) Enabled(int) bool { return true }

func (s sink) Info(_ int, msg string, keysAndValues ...any) {
	s.with(keysAndValues).Debug(msg)
}

// commandFailed begins an error about a command in a container (k8s.io/cri-streaming). What
// follows is for the caller: it may repeat the command, which is no business of the log.
const commandFailed = "error executing command in container: "

func (s sink) Error(err error, msg string, keysAndValues ...any) {
	if err != nil && strings.HasPrefix(err.Error(), commandFailed) {
		err = errors.New("error executing command in container")
	}
	s.with(keysAndValues).WithError(err).Warn(msg)
}

func (s sink) WithValues(keysAndValues ...any) logr.LogSink {
	return sink{s.with(keysAndValues)}
}

func (s sink) WithName(string) logr.LogSink { return s }

func (s sink) with(keysAndValues []any) *log.Entry {
	fields := log.Fields{}
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		fields[fmt.Sprint(keysAndValues[i])] = keysAndValues[i+1]
	}
	return s.entry.WithFields(fields)
}
