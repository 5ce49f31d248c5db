package cri

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain finds goroutines that are left. A look takes half a second, and there are
// many: spdystream keeps a goroutine for a second after a close that failed, and a
// streaming server waits half a minute for the streams of a client that left early.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		err := goleak.Find()
		for range 80 {
			if err != nil {
				err = goleak.Find()
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
