package provider

import (
	"context"

	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
	vklog "github.com/virtual-kubelet/virtual-kubelet/log"
)

// frameworkLogger is virtual-kubelet's logger on top of ours: warnings and
// errors pass, the rest is dropped. It travels in the context of the
// framework's controllers, so that nothing global is set.
type frameworkLogger struct {
	entry *log.Entry
	// warn and fail are the levels under which warnings and errors are logged.
	warn, fail logrus.Level
}

// withNodeLogger gives a context to the NodeController: its warnings are ours.
func withNodeLogger(ctx context.Context) context.Context {
	return vklog.WithLogger(ctx, frameworkLogger{log.G(ctx), logrus.WarnLevel, logrus.ErrorLevel})
}

// withPodLogger gives a context to the PodController. What it warns of are
// writes that it believes to make ("Force deleting pod in running state") and
// that the inert client drops: they are for debugging only.
func withPodLogger(ctx context.Context) context.Context {
	return vklog.WithLogger(ctx, frameworkLogger{log.G(ctx), logrus.DebugLevel, logrus.DebugLevel})
}

func (frameworkLogger) Debug(...any)          {}
func (frameworkLogger) Debugf(string, ...any) {}
func (frameworkLogger) Info(...any)           {}
func (frameworkLogger) Infof(string, ...any)  {}

func (l frameworkLogger) Warn(args ...any)             { l.entry.Log(l.warn, args...) }
func (l frameworkLogger) Warnf(f string, args ...any)  { l.entry.Logf(l.warn, f, args...) }
func (l frameworkLogger) Error(args ...any)            { l.entry.Log(l.fail, args...) }
func (l frameworkLogger) Errorf(f string, args ...any) { l.entry.Logf(l.fail, f, args...) }

// Fatal and Fatalf do not end the process: only main may.
func (l frameworkLogger) Fatal(args ...any)            { l.entry.Log(l.fail, args...) }
func (l frameworkLogger) Fatalf(f string, args ...any) { l.entry.Logf(l.fail, f, args...) }

func (l frameworkLogger) WithField(key string, value any) vklog.Logger {
	return l.with(l.entry.WithField(key, value))
}

func (l frameworkLogger) WithFields(fields vklog.Fields) vklog.Logger {
	return l.with(l.entry.WithFields(logrus.Fields(fields)))
}

func (l frameworkLogger) WithError(err error) vklog.Logger {
	return l.with(l.entry.WithError(err))
}

func (l frameworkLogger) with(entry *log.Entry) vklog.Logger {
	l.entry = entry
	return l
}
