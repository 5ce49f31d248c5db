package local

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// addresses are those of the interfaces with a default route, that of IPv4
// first, else of every interface that is up; without loopback and link-local
// ones.
func (h *Host) addresses() ([]string, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	defaults := h.defaultInterfaces("net")
	rank := func(i net.Interface) int { return slices.Index(defaults, i.Name) }
	interfaces = slices.DeleteFunc(interfaces, func(i net.Interface) bool {
		return i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 || (len(defaults) > 0 && rank(i) < 0)
	})
	slices.SortStableFunc(interfaces, func(a, b net.Interface) int { return rank(a) - rank(b) })
	var out []string
	for _, i := range interfaces {
		addrs, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("list addresses of %s: %w", i.Name, err)
		}
		out = append(out, globals(addrs)...)
	}
	return out, nil
}

func globals(addrs []net.Addr) []string {
	var out []string
	for _, a := range addrs {
		prefix, err := netip.ParsePrefix(a.String())
		if err == nil && prefix.Addr().IsGlobalUnicast() {
			out = append(out, prefix.Addr().String())
		}
	}
	return out
}

// defaultInterfaces are those of the default routes of IPv4 and IPv6 in the
// network namespace whose tables stand in dir below /proc; each once. Without
// such a table there is no such route.
func (h *Host) defaultInterfaces(dir string) []string {
	var out []string
	for _, t := range []struct {
		file  string
		parse func(table string) string
	}{
		{"route", defaultIPv4},
		{"ipv6_route", defaultIPv6},
	} {
		table, err := os.ReadFile(h.proc(dir + "/" + t.file))
		if err != nil {
			continue
		}
		if name := t.parse(string(table)); name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// route is a default route's interface; the lowest metric counts.
type route struct {
	name   string
	metric uint64
	found  bool
}

func (r *route) offer(name, flags, metric string, base int) {
	f, err := strconv.ParseUint(flags, 16, 32)
	if err != nil || f&unix.RTF_UP == 0 || f&unix.RTF_REJECT != 0 {
		return
	}
	m, err := strconv.ParseUint(metric, base, 32)
	if err == nil && (!r.found || m < r.metric) {
		*r = route{name, m, true}
	}
}

// defaultIPv4 reads lines of: Iface Destination Gateway Flags RefCnt Use Metric
// Mask.
func defaultIPv4(table string) string {
	var best route
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) >= 8 && f[1] == "00000000" && f[7] == "00000000" {
			best.offer(f[0], f[3], f[6], 10)
		}
	}
	return best.name
}

// defaultIPv6 reads lines of: destination, prefix length, source, prefix length,
// next hop, metric, references, uses, flags, interface.
func defaultIPv6(table string) string {
	var best route
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) >= 10 && strings.Trim(f[0], "0") == "" && f[1] == "00" {
			best.offer(f[9], f[8], f[5], 16)
		}
	}
	return best.name
}
