package klogs

import (
	"errors"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	logrustest "github.com/sirupsen/logrus/hooks/test"
)

func TestTheirLogIsOurs(t *testing.T) {
	logger, hook := logrustest.NewNullLogger()
	logger.SetLevel(logrus.DebugLevel)
	theirs := New(logrus.NewEntry(logger)).WithName("x").WithValues("a", 1)
	theirs.V(2).Info("detail", "b", "2", "odd")
	theirs.Error(nil, "trouble", "csr", "csr-1")
	entries := hook.AllEntries()
	if len(entries) != 2 || entries[0].Level != logrus.DebugLevel || entries[0].Data["a"] != 1 ||
		entries[0].Data["b"] != "2" ||
		entries[1].Level != logrus.WarnLevel || entries[1].Data["csr"] != "csr-1" {
		t.Errorf("got %+v", entries)
	}
}

// The error of a command in a container is for its caller: it may repeat the command.
func TestCommandsAreNotLogged(t *testing.T) {
	logger, hook := logrustest.NewNullLogger()
	New(logrus.NewEntry(logger)).Error(
		errors.New(`error executing command in container: exec: "hunter2": not found`), "Unhandled Error",
	)
	text, err := hook.LastEntry().String()
	if err != nil || strings.Contains(text, "hunter2") || !strings.Contains(text, "command in container") {
		t.Errorf("logged %q, %v", text, err)
	}
}
