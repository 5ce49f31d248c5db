// Package aftermath shows the logs of processes when a test that used them failed.
package aftermath

import (
	"fmt"
	"os"
	"testing"
)

// most is how much is shown of a log, in bytes.
const most = 40_000

// Show prints the end of a log if the test failed. It goes to standard error, not to
// the test's own report: long logs there would hide what the test says of its failure.
func Show(t testing.TB, of, log string) {
	t.Helper()
	if !t.Failed() {
		return
	}
	fmt.Fprintf(os.Stderr, "%s failed; end of the log of %s:\n%s\n", t.Name(), of, log[max(0, len(log)-most):])
}
