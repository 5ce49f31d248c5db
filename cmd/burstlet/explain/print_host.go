package explain

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	criexplain "github.com/burstlet/burstlet/backend/cri/explain"
)

// sheet is a table of two columns, whose second is left out where it is empty.
type sheet struct{ rows strings.Builder }

func (s *sheet) row(name string, words ...string) {
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
	if len(words) > 0 {
		fmt.Fprintf(&s.rows, "    %s\t%s\n", name, strings.Join(words, ", "))
	}
}

func (s *sheet) print(out *bytes.Buffer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if _, err := table.Write([]byte(s.rows.String())); err != nil {
		return err
	}
	return table.Flush()
}

// printHost writes what a pod turns into on a container host.
func printHost(out *bytes.Buffer, p *criexplain.Preview) error {
	fmt.Fprintf(out, "  QoS class: %s\n  sandbox:\n", p.QOSClass)
	if err := printSandbox(out, &p.Sandbox); err != nil {
		return err
	}
	if len(p.Volumes) > 0 {
		fmt.Fprintln(out, "  volumes on the host:")
		var s sheet
		for _, v := range p.Volumes {
			s.row(v.Name, v.Kind, "at "+v.Path, prefixed("of ", v.Source), limited(v.SizeBytes), when(v.ReadOnly, "read-only"),
				group(v.FSGroup))
		}
		if err := s.print(out); err != nil {
			return err
		}
	}
	for i := range p.Containers {
		if err := printContainer(out, i+1, &p.Containers[i]); err != nil {
			return err
		}
	}
	for _, note := range p.Notes {
		fmt.Fprintf(out, "  note: %s\n", note)
	}
	return nil
}

func printSandbox(out *bytes.Buffer, p *criexplain.SandboxPreview) error {
	var s sheet
	host := p.Hostname
	if host == "" {
		host = "the host's"
	}
	s.row("host name", host)
	s.row(
		"namespaces", "network "+p.Namespaces.Network, "ipc "+p.Namespaces.IPC, "pid "+p.Namespaces.PID,
		"user "+p.Namespaces.User,
	)
	s.row("cgroup", p.Cgroup)
	s.row("its limits", resources(p.Resources), when(p.PIDs > 0, "pids "+strconv.FormatInt(p.PIDs, 10)))
	s.row("DNS", when(p.DNS.OfHost, "the host's resolv.conf"), words("servers", p.DNS.Servers),
		words("search", p.DNS.Searches)+when(p.DNS.HostSearches, " and the host's"), words("options", p.DNS.Options))
	s.row("host ports", p.Ports...)
	var sysctls []string
	for _, name := range slices.Sorted(maps.Keys(p.Sysctls)) {
		sysctls = append(sysctls, name+"="+p.Sysctls[name])
	}
	s.row("sysctls", sysctls...)
	s.row("runtime class", p.RuntimeClass)
	s.row("logs", p.Logs)
	return s.print(out)
}

func printContainer(out *bytes.Buffer, n int, c *criexplain.ContainerPreview) error {
	fmt.Fprintf(out, "  %d. %s %s:\n", n, c.Kind, c.Name)
	var s sheet
	s.row("starts", c.Starts)
	s.row("restarts", c.Restarts)
	s.row("stops", c.Ends)
	s.row("image", c.Image, "pull "+c.Pull)
	s.row("command", commandLine(c))
	s.row("directory", c.WorkingDir)
	s.row("environment", c.Env...)
	sec := c.Security
	s.row("user", sec.User, number("group", sec.Group), numbers("groups", sec.SupplementalGroups),
		when(sec.GroupsPolicy != "", "no groups of the image"))
	s.row("security", when(sec.Privileged, "privileged"), when(sec.ReadOnlyRoot, "read-only root"),
		when(sec.NoNewPrivileges, "no new privileges"),
		words("capabilities added", sec.AddCapabilities), words("dropped", sec.DropCapabilities),
		"seccomp "+sec.Seccomp, "AppArmor "+sec.AppArmor,
		when(sec.UnmaskedProc, "/proc unmasked"))
	s.row("cgroup", resources(c.Cgroup))
	for _, m := range c.Mounts {
		from := m.HostPath
		switch {
		case m.Image != "":
			from = strings.TrimSuffix("image "+m.Image+" "+m.SubPath, " ")
		case m.SubPath != "":
			from = m.SubPath + " by way of " + from
		}
		s.row("mount", m.Path+" from "+from, when(m.ReadOnly, "read-only"), m.Propagation)
	}
	s.row("log", c.Log)
	return s.print(out)
}

// commandLine is what runs, as far as the image does not say.
func commandLine(c *criexplain.ContainerPreview) string {
	command := strings.Join(quoted(c.Command), " ")
	if len(c.Command) == 0 {
		command = "the image's entrypoint"
	}
	switch {
	case len(c.Args) > 0:
		return command + " " + strings.Join(quoted(c.Args), " ")
	case len(c.Command) == 0:
		return command + " and command"
	default:
		return command
	}
}

// quoted quotes words that have something else than what shells leave alone.
func quoted(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w
		if w == "" || strings.ContainsAny(w, " \t\n\"'\\$`;&|<>()*?[]#~") {
			out[i] = strconv.Quote(w)
		}
	}
	return out
}

// resources are what the kernel enforces, in its own words.
func resources(r criexplain.ResourcesPreview) string {
	out := []string{fmt.Sprintf("cpu.shares %d", r.CPUShares)}
	if r.CPUQuota > 0 {
		out = append(out, fmt.Sprintf("cpu.max %d of %d us", r.CPUQuota, r.CPUPeriod))
	}
	if r.Memory > 0 {
		out = append(out, fmt.Sprintf("memory.max %d", r.Memory))
	}
	if r.OOMScore != nil {
		out = append(out, fmt.Sprintf("oom_score_adj %d", *r.OOMScore))
	}
	return strings.Join(out, ", ")
}

func when(is bool, word string) string {
	if is {
		return word
	}
	return ""
}

func prefixed(prefix, word string) string { return when(word != "", prefix+word) }

func words(name string, all []string) string {
	return when(len(all) > 0, name+" "+strings.Join(all, " "))
}

func number(name string, n *int64) string {
	if n == nil {
		return ""
	}
	return name + " " + strconv.FormatInt(*n, 10)
}

func numbers(name string, all []int64) string {
	out := make([]string, len(all))
	for i, n := range all {
		out[i] = strconv.FormatInt(n, 10)
	}
	return words(name, out)
}

func limited(bytes int64) string {
	return when(bytes > 0, "at most "+strconv.FormatInt(bytes, 10)+" bytes")
}

func group(n *int64) string { return number("owned by group", n) }
