package intask

import (
	"fmt"
	"slices"
	"strings"
)

// addresses are the task's: those of IPv4, then those of IPv6.
type addresses []string

// first is the primary one; empty for none.
func (a addresses) first() string {
	if len(a) == 0 {
		return ""
	}
	return a[0]
}

// replace puts addresses in the place of late texts. The task is its own host.
func (a addresses) replace(s string) string {
	if !strings.Contains(s, latePrefix) {
		return s
	}
	all := strings.Join(a, ",")
	return strings.NewReplacer(LatePodIP, a.first(), LatePodIPs, all, LateHostIP, a.first(), LateHostIPs, all).Replace(s)
}

// latePrefix is how all late texts begin.
const latePrefix = "((burstlet:"

// late is true where an address is to be put in.
func late(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, latePrefix) })
}

// Names of variables that runtimes set.
const (
	envHome    = "HOME"
	envHostVar = "HOSTNAME"
	superHome  = "/root"
)

// childEnv makes the environment of the pod's processes of that of the supervisor:
// without burstlet's own, with addresses, and with what a runtime sets for the
// user and host that the container sees.
func childEnv(environ, kept []string, a addresses, cred credential, hostname string) []string {
	out := make([]string, 0, len(environ)+1)
	hasHome := false
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case strings.HasPrefix(name, EnvPrefix):
			continue
		case name == envHome && !slices.Contains(kept, envHome) && madeHome(value):
			// The runtime set it, for root.
			value = cred.home
		case name == envHostVar && !slices.Contains(kept, envHostVar) && hostname != "":
			continue
		}
		hasHome = hasHome || name == envHome
		out = append(out, name+"="+a.replace(value))
	}
	if hostname != "" && !slices.Contains(kept, envHostVar) {
		out = append(out, envHostVar+"="+hostname)
	}
	if !hasHome {
		out = append(out, envHome+"="+cred.home)
	}
	return out
}

// madeHome is true for a home that a runtime gives to root.
func madeHome(home string) bool { return home == "" || home == superHome || home == rootHome }

// expand replaces $(NAME) by variables, and $$ by $ (Kubernetes: expansion.Expand). As for a
// subPathExpr, a name that is unknown or has no value is an error (kubelet:
// ExpandContainerVolumeMounts).
func expand(text string, env []string) (string, error) {
	var out strings.Builder
	var missing []string
	for {
		i := strings.IndexByte(text, '$')
		if i < 0 || i == len(text)-1 {
			break
		}
		out.WriteString(text[:i])
		rest := text[i+1:]
		switch end := strings.IndexByte(rest, ')'); {
		case rest[0] == '$':
			out.WriteByte('$')
			text = rest[1:]
		case rest[0] == '(' && end > 0:
			name := rest[1:end]
			value, _ := lookup(env, name)
			if value == "" {
				missing = append(missing, name)
			}
			out.WriteString(value)
			text = rest[end+1:]
		default:
			out.WriteByte('$')
			text = rest
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return "", fmt.Errorf("missing value for %s", strings.Join(slices.Compact(missing), ", "))
	}
	out.WriteString(text)
	return out.String(), nil
}

func lookup(env []string, name string) (string, bool) {
	for _, kv := range env {
		if n, v, _ := strings.Cut(kv, "="); n == name {
			return v, true
		}
	}
	return "", false
}

// withEnv adds variables, in the place of those of the same name.
func withEnv(env, more []string) []string {
	out := slices.Clone(more)
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if _, replaced := lookup(more, name); !replaced {
			out = append(out, kv)
		}
	}
	return out
}
