package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/burstlet/burstlet/test/kit/need"
)

// hardenedHost is a node whose pods run on a host, with what the benchmark wants of it.
type hardenedHost struct {
	n *node
	h *hostView
	// rules are those of the host's packet filter before burstlet came.
	rules string
	says  kubeletconfig.KubeletConfiguration
}

func newHardenedHost(t *testing.T, c *cluster) *hardenedHost {
	t.Helper()
	h := newContainerdHost(t)
	host := &hardenedHost{
		n: newNode(t, c, "cis-host", h.section(fmt.Sprintf("podPidsLimit: %d", pidsLimit), "seccompDefault: true")),
		h: h.hostView,
	}
	host.rules = (&hostLife{life: &life{T: t}, h: host.h}).packetRules()
	host.n.start()
	return host
}

// life is that of a row's pods.
func (host *hardenedHost) life(h *hardened, row string) *hostLife {
	h.Helper()
	return &hostLife{life: &life{T: h.T, c: h.c, n: host.n, namespace: h.c.namespace(h.T, "cis-"+row)}, h: host.h}
}

// packetRules are all rules of the host's network, by either kind of iptables and for both versions of IP,
// without the numbers of packets. A kind that the kernel does not have has no rules.
func (l *hostLife) packetRules() string {
	l.Helper()
	return l.outside(`for kind in legacy nft; do for ip in iptables ip6tables; do
		$ip-$kind-save 2>/dev/null | sed -e '/^#/d' -e 's/\[[0-9]*:[0-9]*\]//' -e "s/^/$ip $kind /"
	done; done`)
}

// leavesPacketsAlone: the chains that kubelets once made are rules of the host, of which burstlet makes none.
func leavesPacketsAlone(h *hardened) {
	l := h.host.life(h, "packets")
	l.create(l.pod(forever))
	l.until("Ready", isReady)
	if rules := l.packetRules(); rules != h.host.rules {
		h.Errorf("the host's rules were:\n%s\nand are:\n%s", h.host.rules, rules)
	}
	l.outside("iptables -N KUBE-FIREWALL") // as a kubelet's
	if rules := l.packetRules(); !strings.Contains(rules, "KUBE-FIREWALL") || rules == h.host.rules {
		h.Errorf("a chain is not seen in:\n%s", rules)
	}
}

// limitsProcesses: the kernel holds pods to the limit (TestHost, PIDs limit), as configz says.
func limitsProcesses(h *hardened) {
	l := h.host.life(h, "processes")
	l.create(l.pod(forever))
	l.cgroupHas(l.until("Ready", isReady), "pids", "pids.max", pidsLimit)
	if limit := h.host.says.PodPidsLimit; limit == nil || *limit != pidsLimit {
		h.Errorf("configz: podPidsLimit is %v", limit)
	}
}

// confinesByDefault: a pod that names no profile runs with the runtime's.
func confinesByDefault(h *hardened) {
	l := h.host.life(h, "seccomp")
	l.create(l.pod(shell(status("Seccomp"))))
	l.until("Ready", isReady)
	l.says("app", "Seccomp 2")
	if on := h.host.says.SeccompDefault; on == nil || !*on {
		h.Error("configz: seccompDefault is not true")
	}
}

var (
	unitOf  = regexp.MustCompile("(?s)```\n(\\[Unit\\]\nDescription=burstlet.*?)```")
	startOf = regexp.MustCompile(`(?m)^ExecStart=\S+`)
)

// deniesAddresses: systemd's unit in docs/install.md lets no address through but those that it lists, and systemd
// knows all that stands there.
func deniesAddresses(h *hardened) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "install.md"))
	h.must(err)
	found := unitOf.FindSubmatch(page)
	if found == nil {
		h.Fatal("docs/install.md has no unit")
	}
	unit := string(found[1])
	for _, line := range []string{"\nIPAddressDeny=any\n", "\nIPAddressAllow="} {
		if !strings.Contains(unit, line) {
			h.Errorf("the unit has no %q", line)
		}
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		need.Missing(h.T, "systemd-analyze is needed (package systemd)")
	}
	file := filepath.Join(h.TempDir(), "burstlet.service")
	h.must(os.WriteFile(file, []byte(startOf.ReplaceAllString(unit, "ExecStart=/bin/true")), 0o600))
	out, err := exec.CommandContext(h.Context(), "systemd-analyze", "verify", file).CombinedOutput()
	if err != nil || len(out) > 0 { // it ends well, whatever it complains of
		h.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
