package intask

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Limits of /etc/resolv.conf (Kubernetes: MaxDNSNameservers, MaxDNSSearchPaths,
// MaxDNSSearchListChars; the longest domain).
const (
	maxServers     = 3
	maxSearches    = 32
	maxSearchChars = 2048
	maxDomain      = 253
)

// clusterOptions are those of DNSCluster (kubelet: defaultDNSOptions).
const clusterOptions = "ndots:5"

// resolver is what stands in /etc/resolv.conf.
type resolver struct{ servers, searches, options []string }

// writeResolver makes /etc/resolv.conf the pod's. Doing so again changes nothing.
func writeResolver(etc string, d DNS) error {
	return rewrite(filepath.Join(etc, "resolv.conf"), func(old []byte) ([]byte, error) {
		r := parseResolver(string(old))
		switch d.Policy {
		case DNSDefault:
		case DNSCluster:
			r.servers, r.options = d.ClusterServers, []string{clusterOptions}
			r.searches = slices.Concat(d.ClusterSearches, r.searches)
		case DNSNone:
			r = resolver{}
		default:
			return nil, fmt.Errorf("%q is no DNS policy of this version", d.Policy)
		}
		return []byte(r.with(d).String()), nil
	})
}

// parseResolver reads lines as the kubelet does: of search the last counts, of an
// option too.
func parseResolver(text string) resolver {
	var r resolver
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		switch fields[0] {
		case "nameserver":
			r.servers = append(r.servers, fields[1])
		case "search":
			r.searches = nil
			for _, s := range fields[1:] {
				if s != "." {
					r.searches = append(r.searches, strings.TrimSuffix(s, "."))
				}
			}
		case "options":
			r.options = withOptions(r.options, fields[1:])
		}
	}
	return r
}

// with adds the pod's dnsConfig, within the limits.
func (r resolver) with(d DNS) resolver {
	r.servers = unique(slices.Concat(r.servers, d.Servers))
	r.servers = r.servers[:min(len(r.servers), maxServers)]
	r.searches = fitSearches(unique(slices.Concat(r.searches, d.Searches)))
	r.options = withOptions(r.options, d.Options)
	return r
}

// unique leaves out what stands there already.
func unique[T comparable](words []T) []T {
	var out []T
	for _, w := range words {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// fitSearches leaves out what resolvers do not take: too many, too long.
func fitSearches(searches []string) []string {
	searches = searches[:min(len(searches), maxSearches)]
	searches = slices.DeleteFunc(searches, func(s string) bool { return len(s) > maxDomain })
	for len(strings.Join(searches, " ")) > maxSearchChars {
		searches = searches[:len(searches)-1]
	}
	return searches
}

// withOptions puts options in; one of the same name is replaced.
func withOptions(options, more []string) []string {
	name := func(option string) string {
		n, _, _ := strings.Cut(option, ":")
		return n
	}
	out := slices.Clone(options)
	for _, o := range more {
		if i := slices.IndexFunc(out, func(x string) bool { return name(x) == name(o) }); i >= 0 {
			out[i] = o
			continue
		}
		out = append(out, o)
	}
	return out
}

// String is the file as containerd writes it.
func (r resolver) String() string {
	var out strings.Builder
	if len(r.searches) > 0 {
		out.WriteString("search " + strings.Join(r.searches, " ") + "\n")
	}
	for _, s := range r.servers {
		out.WriteString("nameserver " + s + "\n")
	}
	if len(r.options) > 0 {
		out.WriteString("options " + strings.Join(r.options, " ") + "\n")
	}
	return out.String()
}
