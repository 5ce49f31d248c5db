package ecslife

import (
	"io"
	"testing"

	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	logrus.SetOutput(io.Discard) // what the engine logs of lost calls
	goleak.VerifyTestMain(m)
}
