// Package remotehost starts a whole Linux host for tests and the demo, with
// sshd, containerd, runc and CNI, any number of them at once on one machine:
// what burstlet is pointed at with "ssh://", or with the socket of its containerd.
//
// A [Host] is a set of namespaces (mount, network, UTS, IPC, PID, cgroup) with a
// root file system of its own; package namespaces runs it.
//
//   - Its disk is a directory that outlives [Host.Reboot]: all of /etc, /var,
//     /root, /home, /opt, /srv and /mnt. /run, /tmp and /dev do not outlive it.
//     The machine's programs (/usr) are there read-only; of all other files of
//     the machine it sees [Host.Shared] alone, and so does the machine of its files:
//     they have the same path there on both sides, which a client of the socket needs.
//   - containerd is at its standard places and holds the images of package
//     images. It is the machine's own, or another version that is built of its module
//     (Config.Containerd) and can be upgraded below running pods. Users are root, and
//     "burst", who is in the group of containerd's socket and may use sudo without a
//     password.
//   - The network has a bridge for pods, an address on eth0 and no way out but to
//     the machine, with Config.Linked.
//   - It sees a part of every cgroup hierarchy of its own as the whole, and its
//     own boot id in /proc. The clock, other sysctls and the rest of /sys are the
//     machine's.
//
// The way in is [Host.Link], a TCP proxy on the machine (its loopback, or
// Config.LinkAddress) that leads to the host's sshd and can be cut, reset and slowed down.
// Beside it a process of the machine reaches containerd at [Host.Socket], pods and the
// streaming server through [Host.DialContext] (with Config.Linked by plain dialling), and
// cgroups at [Host.CgroupRoot] and all files at [Host.Path].
//
// containerd and sshd can be killed and started again without harm to the containers.
// Nothing of a host outlives the process that owns it, even killed, but a directory, a
// bind mount and empty cgroups, which the next [Start] removes.
package remotehost
