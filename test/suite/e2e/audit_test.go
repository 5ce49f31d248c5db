package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"
)

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Request, verbs: [create], resources: [{group: "", resources: [serviceaccounts/token]}]}
- {level: None}
`

// auditArgs writes the policy and returns the API server's flags.
func auditArgs() ([]string, error) {
	policy := filepath.Join(scratch, "policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, err
	}
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + auditLog()}, nil
}

// auditLog is the API server's log of token requests. It has no token in it: the
// replies are not logged.
func auditLog() string { return filepath.Join(scratch, "audit.log") }

// tokenRequests counts the requests for tokens that a node made, by the pod that
// the tokens are bound to; refused ones too.
func tokenRequests(t *testing.T, node string) map[types.UID]int {
	t.Helper()
	f, err := os.Open(auditLog())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	counts := map[types.UID]int{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			User          struct{ Username string }
			RequestObject authenticationv1.TokenRequest
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatal(fmt.Errorf("audit log: %w", err)) // a line is written at once
		}
		if ref := event.RequestObject.Spec.BoundObjectRef; event.User.Username == "system:node:"+node && ref != nil {
			counts[ref.UID]++
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return counts
}
