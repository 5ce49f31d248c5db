// Package resolvconf reads and composes the resolver configuration of pods as a kubelet
// does (pkg/kubelet/network/dns), for CRI and for the program in ECS tasks. It is pure. It
// imports the standard library alone, because that program must stay small.
package resolvconf

import (
	"slices"
	"strings"
)

// The kubelet's limits (pkg/apis/core/validation): what is beyond them is left out.
const (
	maxServers     = 3
	maxSearches    = 32
	maxSearchChars = 2048
	maxSearchName  = 253
)

// Config is what stands in a resolv.conf. An option is "name" or "name:value".
type Config struct{ Servers, Searches, Options []string }

// Parse reads resolv.conf(5): name servers add up, the last search line wins, a later
// option replaces an earlier one of its name.
func Parse(text string) Config {
	var c Config
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		switch word, values := fields[0], fields[1:]; word {
		case "nameserver":
			c.Servers = append(c.Servers, values[:min(len(values), 1)]...)
		case "search":
			c.Searches = nil
			for _, s := range values {
				if s != "." {
					c.Searches = append(c.Searches, strings.TrimSuffix(s, "."))
				}
			}
		case "options":
			c.Options = withOptions(c.Options, values)
		}
	}
	return c
}

// ClusterSearches are the domains in which a pod of a namespace looks for names of the
// cluster first. Without a domain of the cluster there are none.
func ClusterSearches(namespace, domain string) []string {
	domain = strings.TrimSuffix(domain, ".")
	if domain == "" {
		return nil
	}
	return []string{namespace + ".svc." + domain, "svc." + domain, domain}
}

// Option is an option of a pod's dnsConfig.
func Option(name string, value *string) string {
	if value == nil || *value == "" {
		return name
	}
	return name + ":" + *value
}

// ForCluster is the configuration of a pod that asks the cluster's DNS: names are looked
// for in its domains before those of the host.
func (c Config) ForCluster(servers, searches []string) Config {
	return Config{
		Servers: servers, Searches: slices.Concat(searches, c.Searches),
		Options: []string{"ndots:5"}, // kubelet: defaultDNSOptions
	}
}

// With adds a pod's dnsConfig, within the limits.
func (c Config) With(own Config) Config {
	servers := distinct(slices.Concat(c.Servers, own.Servers))
	return Config{
		Servers:  servers[:min(len(servers), maxServers)],
		Searches: fit(distinct(slices.Concat(c.Searches, own.Searches))),
		Options:  withOptions(c.Options, own.Options),
	}
}

// String is the file as containerd writes it.
func (c Config) String() string {
	var out strings.Builder
	if len(c.Searches) > 0 {
		out.WriteString("search " + strings.Join(c.Searches, " ") + "\n")
	}
	for _, s := range c.Servers {
		out.WriteString("nameserver " + s + "\n")
	}
	if len(c.Options) > 0 {
		out.WriteString("options " + strings.Join(c.Options, " ") + "\n")
	}
	return out.String()
}

// withOptions puts options in; one replaces that of the same name.
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

// fit leaves out what resolvers do not take, in the kubelet's order: first what is too
// many, then what is too long. A name that is too long thus makes no room for another.
func fit(searches []string) []string {
	searches = searches[:min(len(searches), maxSearches)]
	searches = slices.DeleteFunc(searches, func(s string) bool { return len(s) > maxSearchName })
	for len(strings.Join(searches, " ")) > maxSearchChars {
		searches = searches[:len(searches)-1]
	}
	return searches
}

// distinct keeps the first of each.
func distinct(in []string) []string {
	var out []string
	for _, s := range in {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
