package plan

import (
	"fmt"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

// envFilesRepeat is how long what was read of files holds. Then they are read again: a
// container may have written what is missing (kubelet: backOffPeriod).
const envFilesRepeat = 10 * time.Second

// ReadEnvFiles reads the files that a container's variables come from, for one start.
type ReadEnvFiles struct {
	Pod       backend.Ref
	Container string
	Start     StartOf
	Files     []resolve.EnvFile
}

func (a ReadEnvFiles) String() string {
	return fmt.Sprintf("read files of container %s attempt %d", a.Container, a.Start.Attempt)
}

func (a ReadEnvFiles) key() string { return "files " + a.Container }

// StartOf names the start of a container: before another one its files are read anew.
type StartOf struct{ Sandbox, Round, Attempt int }

// EnvFiles is what was read for a start. Never logged.
type EnvFiles struct {
	Start StartOf
	At    time.Time
	Files map[resolve.EnvFile]resolve.Object[[]byte]
}

// envFiles adds to the objects the files that the container's variables come from; false
// until they were read for this start in the live sandbox. What has become too old is read
// again, and serves meanwhile to say what is wrong.
func (v view) envFiles(p *Plan, m podContainer, attempt int) (objects resolve.Objects, fresh bool) {
	objects = v.Objects
	files := resolve.EnvFilesOf(m.Container)
	if len(files) == 0 {
		return objects, true
	}
	sandbox := v.sandbox()
	if sandbox == nil {
		return objects, false
	}
	start := StartOf{Sandbox: sandbox.Attempt, Round: v.round, Attempt: attempt}
	read := v.Memory.EnvFiles[m.Name]
	if read.Start == start {
		objects.EnvFiles = read.Files
		if again := read.At.Add(envFilesRepeat); v.Now.Before(again) {
			p.Wake(again)
			return objects, true
		}
	}
	action := ReadEnvFiles{Pod: sandbox.Ref, Container: m.Name, Start: start, Files: files}
	if f, failed := v.Memory.Failures[action.key()]; failed && v.Now.Before(f.Until()) {
		p.Wake(f.Until())
		return objects, false
	}
	p.Actions = append(p.Actions, action)
	return objects, false
}

// recordEnvFiles notes what was read.
func (m *Memory) recordEnvFiles(a ReadEnvFiles, r Result) {
	if r.Err != nil {
		m.fail(a.key(), r)
		return
	}
	delete(m.Failures, a.key())
	put(&m.EnvFiles, a.Container, EnvFiles{Start: a.Start, At: r.At, Files: r.EnvFiles})
}
