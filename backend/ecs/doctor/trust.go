package doctor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/burstlet/burstlet/backend"
)

// texts is a member of a policy that may be a string or a list.
type texts []string

// UnmarshalJSON reads either.
func (t *texts) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = texts{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(t))
}

// principal is who a statement is about: "*", or services and others.
type principal struct{ services texts }

// UnmarshalJSON reads either form.
func (p *principal) UnmarshalJSON(b []byte) error {
	var all string
	if json.Unmarshal(b, &all) == nil {
		p.services = texts{all}
		return nil
	}
	var kinds struct{ Service, AWS texts }
	if err := json.Unmarshal(b, &kinds); err != nil {
		return err
	}
	p.services = kinds.Service
	if slices.Contains(kinds.AWS, "*") {
		p.services = append(p.services, "*")
	}
	return nil
}

type trustStatement struct {
	Effect    string
	Action    texts
	Principal principal
	Condition map[string]map[string]texts
}

// trustStatements are those of a policy, which may be one without a list.
type trustStatements []trustStatement

// UnmarshalJSON reads either.
func (s *trustStatements) UnmarshalJSON(b []byte) error {
	if !bytes.HasPrefix(b, []byte("{")) {
		return json.Unmarshal(b, (*[]trustStatement)(s))
	}
	*s = make(trustStatements, 1)
	return json.Unmarshal(b, &(*s)[0])
}

// concerns is true of a statement about a service that takes the role.
func (s trustStatement) concerns(service string) bool {
	return slices.ContainsFunc(s.Principal.services, func(p string) bool { return p == service || p == "*" }) &&
		slices.ContainsFunc(s.Action, isAssumeRole)
}

// isAssumeRole is true of an action that covers sts:AssumeRole. Actions have wildcards, and
// their case does not matter (IAM user guide, "IAM JSON policy elements: Action").
func isAssumeRole(action string) bool {
	ok, err := path.Match(strings.ToLower(action), "sts:assumerole")
	return ok && err == nil
}

// unmet names a condition that ECS does not meet when it takes the role for this node's
// tasks; empty: it meets all that are known here. ECS names the account, and the task
// by an ARN of the region and account: a condition on one cluster is never met (ECS
// developer guide, "Cross-service confused deputy prevention").
func (s trustStatement) unmet(account, task string) string {
	for _, name := range slices.Sorted(maps.Keys(s.Condition)) {
		operator, keys := strings.TrimSuffix(name, "IfExists"), s.Condition[name]
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			is, values := "", keys[key]
			switch strings.ToLower(key) {
			case "aws:sourceaccount":
				is = account
			case "aws:sourcearn":
				is = task
			default:
				continue
			}
			if !slices.ContainsFunc(values, func(v string) bool { return meets(operator, v, is) }) {
				return fmt.Sprintf("%s %s %s", operator, key, strings.Join(values, " or "))
			}
		}
	}
	return ""
}

// meets compares a value with one of a condition; operators that are not known are met.
func meets(operator, want, is string) bool {
	switch operator {
	case "StringEquals":
		return want == is
	case "StringLike", "ArnLike", "ArnEquals":
		// A * of IAM matches slashes too, one of path.Match does not.
		ok, err := path.Match(strings.ReplaceAll(want, "/", "|"), strings.ReplaceAll(is, "/", "|"))
		return ok && err == nil
	}
	return true
}

// trusted says whether a role may be taken by its service for this node's tasks.
func (d *doctor) trusted(r taskRole, document string) backend.Finding {
	var policy struct{ Statement trustStatements }
	text, err := url.QueryUnescape(document)
	if err == nil {
		err = json.Unmarshal([]byte(text), &policy)
	}
	if err != nil {
		return backend.Doubtful(r.what, fmt.Sprintf("the trust policy of %s cannot be read: %v", r.arn, err),
			"compare it with deploy/aws/README.md")
	}
	advice := "let that service assume it, as deploy/aws/README.md says"
	allowed, why := false, ""
	for _, s := range policy.Statement {
		if !s.concerns(r.service) {
			continue
		}
		unmet := s.unmet(d.account, d.taskARN())
		switch {
		case s.Effect == "Deny" && unmet == "" && len(s.Condition) == 0:
			return backend.Bad(r.what, r.arn+" refuses "+r.service, advice)
		case s.Effect == "Allow" && unmet == "":
			allowed = true
		case s.Effect == "Allow":
			why = " here: its condition is " + unmet
		}
	}
	if !allowed {
		return backend.Bad(r.what, r.arn+" does not trust "+r.service+why, advice)
	}
	return backend.Good(r.what, r.arn+" trusts "+r.service)
}
