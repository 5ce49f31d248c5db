package sshlink

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// DiagnoseHost judges what a host is for a node of it, whose runtime listens on a socket.
func DiagnoseHost(facts host.Facts, socket string, node Tenant) []backend.Finding {
	kubelet := backend.Finding{What: "kubelet", OK: true, Detail: "none uses this runtime"}
	if i := slices.IndexFunc(facts.Kubelets, func(k host.Kubelet) bool { return k.Uses(socket) }); i >= 0 {
		kubelet = backend.Finding{
			What: "kubelet", Detail: fmt.Sprintf("one uses the same runtime (process %d)", facts.Kubelets[i].PID),
			Advice: "it removes the pods of others from its runtime: use a host or a containerd of its own",
		}
	}
	findings := append([]backend.Finding{kubelet}, offered(facts)...)
	findings = append(findings, node.neighbours(facts.Nodes)...)
	for _, lack := range facts.Lacks {
		what, advice, _ := strings.Cut(lack, ": ")
		findings = append(findings, backend.Finding{What: "lacks", Warn: true, Detail: what, Advice: advice})
	}
	return findings
}

// noswapSince is the first kernel whose tmpfs need not be swapped out.
const noswapSince = "6.4"

// littleDisk is the part of the volumes' file system, in percent, below which a kubelet
// evicts pods (evictionHard, nodefs.available).
const littleDisk = 10

// offered says what a host is like, and what that costs pods.
func offered(facts host.Facts) []backend.Finding {
	driver := "; no systemd: the driver is cgroupfs"
	if facts.Systemd {
		driver = "; systemd manages them: the driver should be systemd"
	}
	cgroups := "version 2" + driver
	if !facts.CgroupV2 {
		// Pods run there all the same, and only a new system changes it.
		cgroups = "version 1" + driver + "; a container that runs out of memory may lose a process and go on"
	}
	findings := []backend.Finding{
		backend.Good("cgroups", cgroups), backend.Good("kernel", cmp.Or(facts.Kernel, "of no known version")),
	}
	switch {
	case facts.Swap == 0:
		findings = append(findings, backend.Good("swap", "none"))
	case !atLeast(facts.Kernel, noswapSince):
		findings = append(findings, backend.Doubtful("swap", humanize(uint64(facts.Swap))+
			": this kernel may write Secrets and tokens there",
			"swapoff -a, use a kernel of "+noswapSince+" or later, or encrypt the swap"))
	case !facts.SwapLimits:
		findings = append(findings, backend.Doubtful("swap", humanize(uint64(facts.Swap))+
			": the kernel does not keep containers from it",
			"boot with swapaccount=1, or swapoff -a"))
	default:
		findings = append(findings, backend.Good(
			"swap", humanize(uint64(facts.Swap))+", not for Secrets, nor for containers unless memorySwap says so",
		))
	}
	disk := facts.Disk
	free := fmt.Sprintf("%s free of %s", humanize(disk.Available), humanize(disk.Capacity))
	if disk.Capacity > 0 && disk.Available < disk.Capacity/100*littleDisk {
		return append(findings, backend.Doubtful("disk", free+" where volumes are",
			fmt.Sprintf("make room: below %d%% a kubelet would evict pods", littleDisk)))
	}
	return append(findings, backend.Good("disk", free+" where volumes are"))
}

// humanize is a number of bytes for people.
func humanize(bytes uint64) string {
	const unit = 1 << 10
	value, word := float64(bytes), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value < unit {
			break
		}
		value, word = value/unit, next
	}
	return fmt.Sprintf("%.3g %s", value, word)
}

// atLeast compares the first two numbers of a kernel's version. One that is not known is
// old.
func atLeast(kernel, want string) bool {
	has, err := version.ParseGeneric(kernel)
	return err == nil && has.AtLeast(version.MustParseGeneric(want))
}
