package doctor

import (
	"cmp"
	"net"
	"net/url"
	"strings"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/cmd/burstlet/backends"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// sharedHost looks for other nodes that run their pods on the host of one. Each offers
// what the host has unless it is told what is its own. The host knows of those of other
// processes, and its own diagnosis tells.
func sharedHost(nodes []config.Configuration, at int) []backend.Finding {
	const what = "host of several nodes"
	host := hostOf(nodes[at].Backend)
	if host == "" {
		return nil
	}
	var others []string
	twice := unbounded(nodes[at])
	for i, node := range nodes {
		if i != at && hostOf(node.Backend) == host {
			others = append(others, node.Node.Name)
			twice = twice || unbounded(node)
		}
	}
	if len(others) == 0 {
		return nil
	}
	with := "also of node " + strings.Join(others, ", ")
	if twice {
		return []backend.Finding{backend.Bad(what, with+": what the host has is offered more than once", backends.PartAdvice)}
	}
	return []backend.Finding{backend.Good(what, with+", each with its part")}
}

// hostOf tells hosts apart, by how they are reached; "" for what is no host.
func hostOf(b config.Backend) string {
	if b.Type != config.BackendCRI || b.CRI == nil {
		return ""
	}
	at, err := url.Parse(b.CRI.Endpoint)
	if err != nil || at.Hostname() == "" {
		return "this machine"
	}
	return net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), "22"))
}

// unbounded is true of a node that offers all of its host.
func unbounded(c config.Configuration) bool {
	return c.Node.Capacity.CPU == nil || c.Node.Capacity.Memory == nil
}
