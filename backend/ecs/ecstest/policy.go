package ecstest

import (
	"encoding/json"
	"os"
	"path"
	"slices"
	"strings"
)

// oneOrMore is a member of a policy that may be a string or a list.
type oneOrMore []string

// UnmarshalJSON reads either.
func (o *oneOrMore) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*o = oneOrMore{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(o))
}

// Policy is a file of deploy/aws. Conditions are not evaluated.
type Policy struct {
	Version   string
	Statement []struct {
		Sid, Effect      string
		Action, Resource oneOrMore
		Condition        map[string]map[string]string
	}
}

// ReadPolicy reads a policy with what an administrator puts in: the account
// 123456789012, the cluster default, a log group, the bucket payloads.
func ReadPolicy(file, logGroup string) (Policy, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Policy{}, err
	}
	filledIn := strings.NewReplacer(
		"REGION", "us-east-1", "ACCOUNT", "123456789012", "CLUSTER", "default", "EXECUTION_ROLE", "execution",
		"INFRASTRUCTURE_ROLE", "volumes", "TASK_ROLE", "task", "LOG_GROUP", logGroup, "QUEUE", "events", "BUCKET", "payloads",
	)
	var p Policy
	err = json.Unmarshal([]byte(filledIn.Replace(string(text))), &p)
	return p, err
}

// Actions are what a policy grants.
func (p Policy) Actions() []string {
	var out []string
	for _, s := range p.Statement {
		out = append(out, s.Action...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Allows is true if a statement allows an action on a resource, its conditions aside.
func (p Policy) Allows(action, resource string) bool {
	for _, s := range p.Statement {
		if !slices.Contains(s.Action, action) {
			continue
		}
		for _, r := range s.Resource {
			// A * of IAM matches slashes too, one of path.Match does not.
			if ok, err := path.Match(strings.ReplaceAll(r, "/", "|"),
				strings.ReplaceAll(resource, "/", "|")); ok && err == nil {
				return true
			}
		}
	}
	return false
}
