package stopper_test

import (
	"io"
	"testing"

	"github.com/containerd/log"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	log.L.Logger.SetOutput(io.Discard) // failures that tests make
	goleak.VerifyTestMain(m)
}
