package containerd

import (
	"os"
	"strings"
	"testing"

	"github.com/burstlet/burstlet/test/kit/need"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

// Need ends the test as [need.Missing] does where no such host can be started,
// because packages are missing or this is not root.
func Need(t testing.TB, host string, missing []string) {
	t.Helper()
	need.Machine()
	switch {
	case len(missing) > 0:
		need.Missing(t, "no %s: %s not installed: run make test", host, strings.Join(missing, ", "))
	case os.Geteuid() != 0:
		need.Missing(t, "no %s: root is needed", host)
	}
}

// NeedVersion ends the test as [need.Missing] does where a version of containerd is not
// built.
func NeedVersion(t testing.TB, version Version) {
	t.Helper()
	programs, err := version.programs()
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range programs {
		cptest.Tool(t, tool)
	}
}
