package resolve

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// expand replaces $(NAME) by what lookup finds, and $$ by $. References that
// lookup does not know stay as they are.
func expand(s string, lookup func(string) (string, bool)) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '$' || i+1 == len(s) {
			out.WriteByte(s[i])
			continue
		}
		switch s[i+1] {
		case '$':
			out.WriteByte('$')
			i++
		case '(':
			end := strings.IndexByte(s[i+2:], ')')
			if end < 0 {
				out.WriteByte('$')
				continue
			}
			name := s[i+2 : i+2+end]
			if value, ok := lookup(name); ok {
				out.WriteString(value)
			} else {
				out.WriteString("$(" + name + ")")
			}
			i += 2 + end
		default:
			out.WriteByte('$')
		}
	}
	return out.String()
}

// expandText is expand that keeps account of what the result was made of.
func expandText(s string, lookup func(string) (text, bool)) text {
	var origin backend.Origin
	out := expand(s, func(name string) (string, bool) {
		value, ok := lookup(name)
		origin |= value.origin
		return value.string, ok
	})
	return text{out, origin}
}

// expandWords is expandText for each, in place. The origins are nil when all are
// shared.
func expandWords(words []string, lookup func(string) (text, bool)) []backend.Origin {
	origins := make([]backend.Origin, len(words))
	special := false
	for i := range words {
		word := expandText(words[i], lookup)
		words[i], origins[i] = word.string, word.origin
		special = special || word.origin != backend.OriginShared
	}
	if !special {
		return nil
	}
	return origins
}

// expandAll is expand for each, in place.
func expandAll(words []string, lookup func(string) (string, bool)) {
	for i := range words {
		words[i] = expand(words[i], lookup)
	}
}

// ProbeCommand is the command of an exec probe: $(VAR) names variables of the
// container's spec, whose literal values count as they stand (the kubelet's
// ExpandContainerCommandOnlyStatic). Commands of lifecycle hooks are not
// expanded at all.
func ProbeCommand(c *corev1.Container, command []string) []string {
	if !slices.ContainsFunc(command, func(word string) bool { return strings.Contains(word, "$") }) {
		return command
	}
	values := make(map[string]string, len(c.Env))
	for i := range c.Env {
		values[c.Env[i].Name] = c.Env[i].Value
	}
	out := append([]string(nil), command...)
	expandAll(out, func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	})
	return out
}
