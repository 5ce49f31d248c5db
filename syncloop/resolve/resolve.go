// Package resolve turns what a pod's spec refers to into bytes: today literal
// environment variables and $(VAR) references. Its inputs are values only.
package resolve

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Container returns a copy of c with $(VAR) expanded in env, command and args.
// A variable sees those before it; unknown references stay as they are and
// $$(VAR) is an escaped $(VAR), as the API documents for Container.command.
func Container(c *corev1.Container) corev1.Container {
	out := *c.DeepCopy()
	known := map[string]string{}
	for i := range out.Env {
		out.Env[i].Value = expand(out.Env[i].Value, known)
		known[out.Env[i].Name] = out.Env[i].Value
	}
	for i := range out.Command {
		out.Command[i] = expand(out.Command[i], known)
	}
	for i := range out.Args {
		out.Args[i] = expand(out.Args[i], known)
	}
	return out
}

// expand replaces $(NAME) by its value and $$ by $.
func expand(s string, known map[string]string) string {
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
			if value, ok := known[name]; ok {
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

// Hash identifies a container's spec, as it stands in the API: a container whose
// hash changed is another container.
func Hash(c *corev1.Container) string {
	// A Container holds nothing that cannot be marshalled.
	b, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("marshal container %s: %v", c.Name, err))
	}
	h := fnv.New64a()
	h.Write(b)
	return fmt.Sprintf("%016x", h.Sum64())
}
