package explain

import (
	"bytes"
	"strings"
	"testing"

	"github.com/burstlet/burstlet/backend/ecs/taskdef"
)

// TestExecsMemoryIsTold: what ECS Exec takes of a task's size is said, with what turns it off.
func TestExecsMemoryIsTold(t *testing.T) {
	for mib, want := range map[int64]bool{80: true, 0: false} {
		var out bytes.Buffer
		p := taskdef.Preview{ExecMiB: mib, TaskDefinition: []byte("{}"), RunTask: []byte("{}")}
		if err := printTask(&out, &p); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), `80 MiB`) &&
			strings.Contains(out.String(), `ecs.burstlet.dev/exec: "false"`); got != want {
			t.Errorf("%d MiB: %s", mib, out.String())
		}
	}
}
