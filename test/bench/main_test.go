package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/burstlet/burstlet/test/kit/launch"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

// plane is the control plane of all benchmarks. Nothing of it may be the limit
// that is measured but its speed: no flow control, and room for every worker.
var plane cptest.Shared

func TestMain(m *testing.M) {
	if os.Getenv(referenceEnv) != "" {
		if err := runReference(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if built.dir, err = os.MkdirTemp("", "burstlet-bench-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// What is measured is burstlet without the race detector, whatever others test.
	if err := errors.Join(os.Unsetenv(launch.RaceEnv), os.Unsetenv(launch.ProgramEnv)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	policy := filepath.Join(built.dir, "audit.yaml")
	err = os.WriteFile(policy, []byte(auditPolicy), 0o600)
	plane.Config.WithoutScheduler = true
	plane.Config.BindAddress = "0.0.0.0" // a kubelet reaches it from its host
	plane.Config.APIServerArgs = []string{
		"--enable-priority-and-fairness=false", "--max-requests-inflight=4000", "--max-mutating-requests-inflight=2000",
		"--audit-policy-file=" + policy, "--audit-log-path=" + auditLog(),
		"--audit-log-maxsize=10000", // MB: marks are places in the file, which must not begin anew
	}
	code := 1
	if err == nil {
		code = plane.Main(m)
	}
	results.print(os.Stdout)
	if err = errors.Join(err, os.RemoveAll(built.dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}
