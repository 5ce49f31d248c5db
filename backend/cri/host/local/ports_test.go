package local

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend/class"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// A port of the host is one pod's among those of all nodes, while something runs in it or
// it is being launched. The pods of one node are its own affair.
func TestClaimsOfPorts(t *testing.T) {
	root, logs := fakeTree(t, v1(nil)), t.TempDir()
	port := func(protocol string, number int32, ip string) host.Port {
		return host.Port{Protocol: protocol, Number: number, IP: ip}
	}
	ask := func(node, pod string, ports ...host.Port) string {
		mark := filepath.Join(logs, "ns_"+pod+"_u", host.LogMark)
		_, err := New(Options{CgroupRoot: root}).Prepare(t.Context(), host.Preparation{ // each time another process
			Dirs: []string{filepath.Dir(mark)},
			Writes: []host.Write{{
				Path: mark, Data: host.Ownership{Node: node, Cgroup: "/top/" + pod}.Bytes(), Mode: 0o644, KeepExisting: true,
			}},
			Ports: &host.Ports{Mark: mark, Ports: ports},
		})
		if err != nil && class.Of(err) != "Capacity" {
			t.Fatal(err)
		}
		return class.Of(err)
	}
	age := func(pod string) {
		noError(t, os.Chtimes(filepath.Join(logs, "ns_"+pod+"_u", host.LogMark), time.Time{}, time.Now().Add(-time.Hour)))
	}
	putFile(t, filepath.Join(logs, "a-file"), "")
	for _, c := range []struct {
		node, pod string
		port      host.Port
		refused   bool
	}{
		{"a", "first", port("TCP", 80, ""), false},
		{"a", "first", port("TCP", 80, ""), false}, // its next attempt
		{"b", "all", port("TCP", 80, "0.0.0.0"), true},
		{"b", "one", port("TCP", 80, "10.0.0.1"), true},
		{"b", "udp", port("UDP", 80, ""), false},
		{"b", "other", port("TCP", 81, "10.0.0.1"), false},
		{"a", "own", port("TCP", 80, ""), false},
		{"a", "elsewhere", port("TCP", 81, "10.0.0.2"), false},
		{"a", "same", port("TCP", 81, "10.0.0.1"), true},
	} {
		if got := ask(c.node, c.pod, c.port); (got != "") != c.refused {
			t.Errorf("pod %s of node %s, port %v: %q, want refused %v", c.pod, c.node, c.port, got, c.refused)
		}
	}
	age("own")
	putFile(t, filepath.Join(root, "cpu,cpuacct/top/first/cgroup.procs"), "77\n")
	age("first")
	if got := ask("b", "all", port("TCP", 80, "")); got == "" {
		t.Error("a port of a pod that runs was given away")
	}
	noError(t, os.Remove(filepath.Join(root, "cpu,cpuacct/top/first/cgroup.procs")))
	if got := ask("b", "all", port("TCP", 80, "")); got != "" {
		t.Errorf("a pod in which nothing runs keeps its port: %s", got)
	}
	if got := ask("a", "first", port("TCP", 80, "")); got == "" {
		t.Error("the pod that was there first has the port again")
	}
}

func TestMarksTellPorts(t *testing.T) {
	for text, o := range map[string]host.Ownership{
		"n\n/c\n":        {Node: "n", Cgroup: "/c"},
		"n\n/c\n65536\n": {Node: "n", Cgroup: "/c", FirstUser: 65536},
		"n\n/c\n0\nTCP/80/ UDP/53/::1\n": {
			Node: "n", Cgroup: "/c", Ports: []host.Port{{Protocol: "TCP", Number: 80}, {Protocol: "UDP", Number: 53, IP: "::1"}},
		},
		"n\n/c\n131072\nSCTP/65535/192.0.2.255\n": {
			Node: "n", Cgroup: "/c", FirstUser: 131072, Ports: []host.Port{{Protocol: "SCTP", Number: 65535, IP: "192.0.2.255"}},
		},
	} {
		if got := string(o.Bytes()); got != text {
			t.Errorf("%+v is %q, want %q", o, got, text)
		}
		if diff := cmp.Diff(o, host.ReadOwnership([]byte(text))); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}
