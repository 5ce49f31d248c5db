package bench

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// auditPolicy logs the writes that nodes make for pods.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch, delete]
  resources: [{group: "", resources: [pods, pods/status, events, serviceaccounts/token]}]
- level: None
`

// auditSettle is how long the log must stay as it is before it is counted: a
// line may come after the reply that it tells of.
const auditSettle = time.Second

func auditLog() string { return filepath.Join(built.dir, "audit.log") }

// writes are the requests of one user that changed something, or tried to.
type writes struct {
	Status  int // patches of pods/status
	Deletes int // of pods
	Events  int
	Tokens  int // requested
	Refused int // of all these, answered with an error
}

// pods counts the writes of pods: what the bars are about.
func (w writes) pods() int { return w.Status + w.Deletes }

// auditMark is where the log ends now, once it has come to rest.
func auditMark(b *testing.B) int64 {
	b.Helper()
	for last := int64(-1); ; {
		info, err := os.Stat(auditLog())
		if err != nil {
			b.Fatal(err)
		}
		if info.Size() == last {
			return last
		}
		last = info.Size()
		time.Sleep(auditSettle)
	}
}

// countWrites counts what user wrote between two marks of the log.
func countWrites(b *testing.B, user string, from, to int64) (w writes) {
	b.Helper()
	f, err := os.Open(auditLog())
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			b.Error(err)
		}
	}()
	if _, err := f.Seek(from, 0); err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for at := from; at < to && lines.Scan(); at += int64(len(lines.Bytes())) + 1 {
		var event struct {
			User           struct{ Username string }
			Verb           string
			ObjectRef      struct{ Resource, Subresource string }
			ResponseStatus struct{ Code int }
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			b.Fatalf("audit log: %v", err)
		}
		if event.User.Username != user {
			continue
		}
		switch {
		case event.ObjectRef.Resource == "events":
			w.Events++
		case event.ObjectRef.Resource == "serviceaccounts":
			w.Tokens++
		case event.Verb == "delete":
			w.Deletes++
		default:
			w.Status++
		}
		if event.ResponseStatus.Code >= 400 {
			w.Refused++
		}
	}
	if err := lines.Err(); err != nil {
		b.Fatal(err)
	}
	return w
}
