package local

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// needed are the capabilities of the host operations, by their bits.
var needed = []struct {
	bit  int
	name string
}{
	{unix.CAP_CHOWN, "CAP_CHOWN"},
	{unix.CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE"},
	{unix.CAP_FOWNER, "CAP_FOWNER"},
	{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"},
}

// lacks says what is missing, and what to do about each.
func (h *Host) lacks(hs hierarchies) []string {
	out := h.lackingRights()
	if _, err := exec.LookPath(h.opts.MountCommand); err != nil {
		out = append(
			out, fmt.Sprintf("the command %s is missing: install the package mount (util-linux)", h.opts.MountCommand),
		)
	}
	if h.systemd() {
		if _, err := exec.LookPath(h.opts.SystemctlCommand); err != nil {
			out = append(out, fmt.Sprintf(
				"systemd runs here and the command %s is missing: install the package systemd", h.opts.SystemctlCommand,
			))
		}
	}
	for _, controller := range []string{controllerCPU, controllerMemory, controllerPIDs} {
		if _, ok := hs.with(controller); !ok && len(hs) > 0 {
			out = append(out, fmt.Sprintf(
				"the cgroup controller %s is missing: boot the kernel with cgroup_enable=%s, or mount it below %s", controller,
				controller, h.opts.CgroupRoot,
			))
		}
	}
	for _, hi := range hs {
		if err := unix.Access(hi.dir, unix.W_OK); err != nil {
			out = append(out, fmt.Sprintf("cgroups at %s cannot be written (%v): mount them read-write", hi.dir, err))
		}
	}
	return append(out, h.lackingFilesystems()...)
}

func (h *Host) lackingRights() []string {
	status, err := words(h.proc("self/status"))
	if err != nil {
		return []string{fmt.Sprintf("the rights of the host operations are unknown (%v): mount /proc", err)}
	}
	var missing []string
	i := slices.Index(status, "CapEff:")
	if i < 0 || i+1 >= len(status) {
		return nil
	}
	effective, err := strconv.ParseUint(status[i+1], 16, 64)
	if err != nil {
		return []string{fmt.Sprintf("the rights of the host operations are unknown: %v", err)}
	}
	for _, c := range needed {
		if effective&(1<<c.bit) == 0 {
			missing = append(missing, c.name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return []string{fmt.Sprintf(
		"the host operations need root and lack %s: log in as root, or let the user run sudo -n", strings.Join(missing, ", "),
	)}
}

// lackingFilesystems are those that containers and volumes stand on, as long as
// the kernel does not have them.
func (h *Host) lackingFilesystems() []string {
	have, err := words(h.proc("filesystems"))
	if err != nil {
		return []string{fmt.Sprintf("the kernel's file systems are unknown (%v): mount /proc", err)}
	}
	var out []string
	for _, l := range []struct{ name, what string }{
		{"overlay", "load the module overlay (modprobe overlay), and name it in /etc/modules-load.d"},
		{"tmpfs", "secrets stand in memory: use a kernel with CONFIG_TMPFS"},
	} {
		if !slices.Contains(have, l.name) {
			out = append(out, fmt.Sprintf("the kernel has no file system %s: %s", l.name, l.what))
		}
	}
	return out
}
