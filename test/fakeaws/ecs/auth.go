package ecs

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Principal is who wants to do something.
type Principal string

// The principals: who calls the server, and the two roles of a task.
const (
	Caller        Principal = "caller"
	ExecutionRole Principal = "execution"
	TaskRole      Principal = "task"
)

// Denial takes a permission away.
type Denial struct {
	// Principal is Caller if empty.
	Principal Principal
	// Action is an IAM action such as "ecs:RunTask", "iam:PassRole" or "ecs:*".
	Action string
	// Resource is an ARN with * for any characters; empty is any.
	Resource string
}

// Deny takes a permission away until AllowAll.
func (s *Server) Deny(d Denial) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.Principal == "" {
		d.Principal = Caller
	}
	s.denials = append(s.denials, d)
}

// AllowAll ends all denials.
func (s *Server) AllowAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denials = nil
}

// authenticate wants a SigV4 header for the service and, if one is configured,
// the right access key or that of a task's role (AWS, "Common error types"), and
// tells who calls. Signatures are not verified.
func (s *Server) authenticate(r *http.Request, service string) (Principal, *apiError) {
	return s.authenticateIn(r, service, s.cfg.Region)
}

// authenticateIn is authenticate for a service that is signed for in a region.
func (s *Server) authenticateIn(r *http.Request, service, region string) (Principal, *apiError) {
	auth := r.Header.Get("Authorization")
	cred, ok := strings.CutPrefix(auth, "AWS4-HMAC-SHA256 Credential=")
	if !ok {
		return "", failf("MissingAuthenticationTokenException", "Missing Authentication Token")
	}
	cred, _, _ = strings.Cut(cred, ",")
	scope := strings.Split(cred, "/") // key/date/region/service/aws4_request
	if len(scope) != 5 || scope[3] != service || scope[2] != region {
		return "", failf(
			"InvalidSignatureException", "Credential should be scoped to a valid region and to service '%s'.", service,
		)
	}
	if t := s.byKey[scope[0]]; t != nil {
		if r.Header.Get("X-Amz-Security-Token") != t.sessionToken() {
			return "", failf("UnrecognizedClientException", "The security token included in the request is invalid.")
		}
		return TaskRole, nil
	}
	if s.cfg.AccessKey != "" && scope[0] != s.cfg.AccessKey {
		return "", failf("UnrecognizedClientException", "The security token included in the request is invalid.")
	}
	return Caller, nil
}

// allowed asks whether a principal has a permission.
func (s *Server) allowed(p Principal, action, resource string) bool {
	s.asked[string(p)+" "+action] = true
	denied := slices.ContainsFunc(s.denials, func(d Denial) bool {
		return d.Principal == p && matches(d.Action, action) && (d.Resource == "" || matches(d.Resource, resource))
	})
	return !denied && (s.cfg.Policy == nil || s.cfg.Policy(p, action, resource))
}

// authorize is IAM's answer to whoever calls (IAM user guide, "Troubleshoot access
// denied error messages").
func (s *Server) authorize(action, resource string) *apiError {
	if s.allowed(s.acting, action, resource) {
		return nil
	}
	who := "burstlet/caller"
	if s.acting != Caller {
		who = string(s.acting) + "-role/task"
	}
	return failf("AccessDeniedException", "%s", s.denialText(who, action, resource))
}

func (s *Server) denialText(who, action, resource string) string {
	return fmt.Sprintf("User: arn:aws:sts::%s:assumed-role/%s is not authorized to perform: %s on resource: %s "+
		"because no identity-based policy allows the %s action",
		s.cfg.Account, who, action, resource, action)
}

// authorizeTags is the permission that tags in a request want beside the action's
// own (ECS developer guide, "Grant permission to tag resources on creation").
func (s *Server) authorizeTags(service, resource string, tags int) *apiError {
	if tags == 0 {
		return nil
	}
	return s.authorize(service+":TagResource", resource)
}

// passRole is IAM user guide, "Grant a user permissions to pass a role to an AWS
// service".
func (s *Server) passRole(roles ...*string) *apiError {
	for _, role := range roles {
		if role == nil || *role == "" {
			continue
		}
		if e := s.authorize("iam:PassRole", *role); e != nil {
			return e
		}
	}
	return nil
}

// matches compares with a pattern in which * stands for any characters.
func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(text, p)
		if i < 0 {
			return false
		}
		text = text[i+len(p):]
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
}
