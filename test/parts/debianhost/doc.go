// Package debianhost starts a whole Debian 13 machine for tests: systemd, version 2 of
// cgroups with systemd's driver, containerd and runc as Debian has them, and a kernel of
// its own. It is what package remotehost cannot be, whose hosts share the machine's
// kernel and cgroups.
//
// A [Host] is one process of user-mode-linux, in namespaces of its own (package
// namespaces of remotehost), so it needs root but no virtualisation of the processor's.
//
//   - Its disk is made once ([Image]): mmdebstrap installs Debian from the mirror that
//     this machine's apt uses, and the result is kept in the cache (package binaries).
//     A host writes to a copy of its own. What makes it another host, such as keys and
//     names, comes on a second disk, from which it is taken before systemd starts (seed.go).
//   - Its network is a wire to its namespace and leads nowhere else. The way in is
//     [Host.Link], as for a remotehost. Beside it [Host.Command], [Host.CRI] and
//     [Host.DialContext] go into the namespace.
//   - It has one processor and is about ten times slower than the machine: it is
//     up after 15 to 80 s, and a pod takes 10 to 25 s. No test may be about time there.
//   - Clocks, /proc/uptime, the boot id and reboots are its own. It has no cpuset.
//
// Nothing of a host outlives the process that owns it, even killed, but a directory, which
// the next [Start] removes.
package debianhost
