package intask

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// lifeFile is where a supervisor says in its run directory how its container ended.
const lifeFile = "life"

// Life is how a container ended, as its supervisor says then. It says nothing of one that
// runs: when that started is ECS's to tell.
type Life struct {
	// Started is when it had started, zero for a command that never ran.
	Started time.Time `json:"started,omitzero"`
	// Ended is nil for one that runs.
	Ended *End `json:"ended,omitempty"`
}

// End is that of a container of which no process is left.
type End struct {
	At time.Time `json:"at"`
	// Exit is the code that ECS shows of it.
	Exit   int    `json:"exit"`
	Report Report `json:"report"`
}

// equal is true of lives of one container of which the same is to be told.
func (l Life) equal(o Life) bool { return (l.Ended == nil) == (o.Ended == nil) }

// write says it in the run directory, for root alone to read, in one step.
func (l Life) write(run string) error {
	if l.Ended != nil {
		end := *l.Ended // the caller's stays as it is
		if _, err := end.Report.bounded(); err != nil {
			return err
		}
		l.Ended = &end
	}
	b, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("encode the life of the container: %w", err)
	}
	path := filepath.Join(run, lifeFile)
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// life is what a container's supervisor says of it. What cannot be read leaves what is
// known, and an end is final.
func (t Task) life(name string, before Life) Life {
	b, err := os.ReadFile(filepath.Join(t.runDir(), name, lifeFile))
	var l Life
	if err != nil || before.Ended != nil || json.Unmarshal(b, &l) != nil {
		return before
	}
	return l
}
