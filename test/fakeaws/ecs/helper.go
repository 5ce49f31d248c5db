package ecs

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// helper is a program that a client may put beside its containers. A container
// whose command starts with it does what its first argument says:
//
//	materialize   exits 0 at once; 1 if the secret or object that payloadEnv names is
//	              not there or its task role may not read it
//	anchor        exits 0 when the containers that waitEnv names have stopped
//	agent         the same where waitEnv is set, else runs until it is stopped; tells
//	              which containers are ready (readiness.go)
//	supervise     does what the words after "--" do, and at last writes a line that
//	              says how that ended, unless the script has written one itself
const (
	helper     = "burstlet-task"
	payloadEnv = "BURSTLET_PAYLOAD"
	waitEnv    = "BURSTLET_WAIT"
)

// What materialize does, with and without what it should write.
var (
	materialized   = behaviour{}
	unmaterialized = behaviour{outcome: outcome{exit: 1}}
)

func isHelper(argv []string, does string) bool {
	return len(argv) >= 2 && path.Base(argv[0]) == helper && argv[1] == does
}

func isMaterializer(argv []string) bool { return isHelper(argv, "materialize") }

// isAnchor is true if container i ends when others have.
func (p *plan) isAnchor(i int) bool {
	argv := p.argv(i)
	return isHelper(argv, "anchor") || isHelper(argv, "agent") && envOf(p.d, p.ov, i, waitEnv) != ""
}

// supervised is what a supervisor runs, other commands as they are.
func supervised(argv []string) []string {
	if i := slices.Index(argv, "--"); i >= 0 && isHelper(argv, "supervise") {
		return argv[i+1:]
	}
	return argv
}

// waitedFor is when all containers that anchor i waits for have stopped.
func (p *plan) waitedFor(i int) time.Duration {
	c := &p.containers[i]
	end := c.start
	for name := range strings.SplitSeq(envOf(p.d, p.ov, i, waitEnv), ",") {
		j := p.d.index(strings.TrimSpace(name))
		if j < 0 || j == i {
			continue
		}
		on := &p.containers[j]
		end = max(end, min(on.end, on.refused))
	}
	return end
}

// envOf is a variable of container i: of the overrides, else of the definition.
func envOf(d *definition, ov overrides, i int, name string) string {
	has := func(kvs []keyValue) (string, bool) {
		for _, kv := range kvs {
			if value(kv.Name) == name {
				return value(kv.Value), true
			}
		}
		return "", false
	}
	for _, o := range ov.ContainerOverrides {
		if value(o.Name) != *d.ContainerDefinitions[i].Name {
			continue
		}
		if v, ok := has(o.Environment); ok {
			return v
		}
	}
	v, _ := has(d.ContainerDefinitions[i].Environment)
	return v
}

// argv is what container i would execute in the end.
func (p *plan) argv(i int) []string { return supervised(argv(&p.d.ContainerDefinitions[i], p.ov)) }

func argv(c *containerDefinition, ov overrides) []string {
	cmd := c.Command
	for _, o := range ov.ContainerOverrides {
		if value(o.Name) == *c.Name && o.Command != nil {
			cmd = o.Command
		}
	}
	return append(slices.Clone(c.EntryPoint), cmd...)
}

// missing is true for images that no registry has: by this server's convention
// those with "missing" or "not-found" in the last part of their name.
func missing(image string) bool {
	base := path.Base(image)
	return strings.Contains(base, "missing") || strings.Contains(base, "not-found")
}

// cannotPull is ECS developer guide, "CannotPullContainer task errors in Amazon
// ECS".
func cannotPull(image string) string {
	return fmt.Sprintf("CannotPullContainerError: pull image manifest has been retried 1 time(s): "+
		"failed to resolve ref %s: %s: not found", image, image)
}

// reportMark begins the line that a supervisor writes at the end.
const reportMark = "\x1eburstlet "

// reports is true for a script that writes that line itself.
func (p prints) reports() bool {
	return slices.ContainsFunc(p.once, func(l printed) bool { return strings.HasPrefix(l.text, reportMark) })
}

// reported are the lines of a supervised container that ended.
type reported struct {
	prints
	end  time.Duration
	exit int32
}

func (r reported) count(at time.Duration) int {
	n := r.prints.count(min(at, r.end))
	if at >= r.end {
		n++
	}
	return n
}

// line says of a failure that the log's end tells of it: whether anybody wants to know
// is not looked at.
func (r reported) line(i int) (time.Duration, string) {
	if i < r.prints.count(r.end) {
		return r.prints.line(i)
	}
	return r.end, fmt.Sprintf(`%s{"exit":%d,"fromLogs":%t}`, reportMark, r.exit, r.exit != 0)
}
