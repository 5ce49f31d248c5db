package ecs

import (
	"slices"
	"strings"
)

// ulimitNames are ECS API, Ulimit: name.
var ulimitNames = []string{
	"core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice",
	"nofile", "nproc", "rss", "rtprio", "rttime", "sigpending", "stack",
}

// maxNofile is ECS API, ContainerDefinition: ulimits: nofile on Fargate goes up to
// 1048576.
const maxNofile = 1 << 20

// tmpfsOptions are ECS API, Tmpfs: mountOptions, without values.
var tmpfsOptions = []string{
	"defaults", "ro", "rw", "suid", "nosuid", "dev", "nodev", "exec", "noexec", "sync", "async", "dirsync", "remount",
	"mand", "nomand", "atime", "noatime", "diratime", "nodiratime", "bind", "rbind", "unbindable", "runbindable",
	"private", "rprivate", "shared", "rshared", "slave", "rslave", "relatime", "norelatime", "strictatime",
	"nostrictatime", "mode", "uid", "gid", "nr_inodes", "nr_blocks", "mpol",
}

// capabilityNames are ECS API, KernelCapabilities: drop.
var capabilityNames = []string{
	"ALL", "AUDIT_CONTROL", "AUDIT_WRITE", "BLOCK_SUSPEND", "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID",
	"IPC_LOCK", "IPC_OWNER", "KILL", "LEASE", "LINUX_IMMUTABLE", "MAC_ADMIN", "MAC_OVERRIDE", "MKNOD", "NET_ADMIN",
	"NET_BIND_SERVICE", "NET_BROADCAST", "NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_ADMIN", "SYS_BOOT",
	"SYS_CHROOT", "SYS_MODULE", "SYS_NICE", "SYS_PACCT", "SYS_PTRACE", "SYS_RAWIO", "SYS_RESOURCE", "SYS_TIME",
	"SYS_TTY_CONFIG", "SYSLOG", "WAKE_ALARM",
}

// check is ECS API, LinuxParameters, as far as Fargate takes it.
func (lp *linuxParameters) check() *apiError {
	if lp == nil {
		return nil
	}
	if lp.Capabilities != nil {
		for _, c := range lp.Capabilities.Drop {
			if !slices.Contains(capabilityNames, c) {
				return clientError("Invalid capability %q.", c)
			}
		}
	}
	paths := map[string]bool{}
	for _, t := range lp.Tmpfs {
		p := value(t.ContainerPath)
		if !strings.HasPrefix(p, "/") || paths[p] {
			return clientError("Invalid or repeated tmpfs containerPath %q.", p)
		}
		paths[p] = true
		if t.Size < 1 {
			return clientError("Invalid tmpfs size: it must be a positive number of MiB.")
		}
		for _, o := range t.MountOptions {
			name, _, _ := strings.Cut(o, "=")
			if !slices.Contains(tmpfsOptions, name) {
				return clientError("Invalid tmpfs mount option %q.", o)
			}
		}
	}
	return nil
}

// checkUlimits is ECS API, Ulimit.
func checkUlimits(us []ulimit) *apiError {
	seen := map[string]bool{}
	for _, u := range us {
		name := value(u.Name)
		if !slices.Contains(ulimitNames, name) || seen[name] {
			return clientError("Invalid or repeated ulimit %q.", name)
		}
		seen[name] = true
		if u.SoftLimit == nil || u.HardLimit == nil || *u.SoftLimit > *u.HardLimit {
			return clientError("Invalid ulimit %q: the soft limit must not be above the hard limit.", name)
		}
		if name == "nofile" && *u.HardLimit > maxNofile {
			return clientError("Invalid ulimit nofile: at most %d.", maxNofile)
		}
	}
	return nil
}

// checkSystemControls is ECS API, SystemControl: what Fargate takes.
func checkSystemControls(cs []systemControl) *apiError {
	for _, c := range cs {
		ns := value(c.Namespace)
		known := strings.HasPrefix(ns, "net.") || strings.HasPrefix(ns, "fs.mqueue.") ||
			strings.HasPrefix(ns, "kernel.shm") ||
			strings.HasPrefix(ns, "kernel.msg") || ns == "kernel.sem"
		if !known || value(c.Value) == "" {
			return clientError("Invalid system control %q.", ns)
		}
	}
	return nil
}
