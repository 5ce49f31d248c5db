# PID 1 of a remote host; see doc.go. Started in namespaces of its own;
# namespaces/loop.sh follows.
#   $1 the host's disk        $2 host name          $3 sshd binary
#   $4 name of its cgroup     $5 boot id            $6 its address and prefix length
#   $7 directory shared with the machine
set -eu

# The cgroup namespace begins where its first process stands.
if [ -z "${apart-}" ]; then
	for procs in "/sys/fs/cgroup/$4/cgroup.procs" /sys/fs/cgroup/*/"$4"/cgroup.procs; do
		[ ! -e "$procs" ] || echo 0 >"$procs"
	done
	apart=1 exec unshare --cgroup -- /bin/sh "$0" "$@"
fi
unset apart
disk=$1 hostname=$2 sshd=$3 cgroup=$4 boot_id=$5 address=$6 shared=$7

# Mounts that the machine makes below the shared directory still arrive here.
mount --make-rslave /
mount --bind "$disk" "$disk"
cd "$disk"

# The machine's programs, read-only, are all that the host has of its files.
programs() {
	mkdir -p ".$1"
	mount --bind "$1" ".$1"
	mount -o remount,bind,ro ".$1"
}
programs /usr
for dir in /bin /sbin /lib /lib32 /lib64 /libx32; do
	if [ -L "$dir" ]; then
		ln -sfn "$(readlink "$dir")" ".$dir"
	elif [ -d "$dir" ]; then
		programs "$dir"
	fi
done
[ ! -d /opt/cni/bin ] || programs /opt/cni/bin

mount -t proc -o nosuid,nodev,noexec proc proc
mount -t sysfs -o nosuid,nodev,noexec sysfs sys
mount -t tmpfs -o nosuid,nodev,mode=0755 tmpfs run
mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs tmp
mkdir -m 0755 run/lock run/sshd
mkdir -p ".$shared"
mount --rbind "$shared" ".$shared"

mount -t tmpfs -o nosuid,mode=0755 tmpfs dev
for node in null zero full random urandom tty kmsg fuse; do
	[ ! -e "/dev/$node" ] || cp -a "/dev/$node" "dev/$node"
done
mkdir dev/pts dev/shm dev/mqueue
mount -t devpts -o newinstance,nosuid,noexec,gid=5,mode=0620,ptmxmode=0666 devpts dev/pts
mount -t tmpfs -o nosuid,nodev,mode=1777 shm dev/shm
mount -t mqueue -o nosuid,nodev,noexec mqueue dev/mqueue
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
for fd in 0:stdin 1:stdout 2:stderr; do
	ln -s "/proc/self/fd/${fd%:*}" "dev/${fd#*:}"
done

# Of every hierarchy the host sees its own part, as the whole.
if [ -d "/sys/fs/cgroup/$cgroup" ]; then
	mount --bind "/sys/fs/cgroup/$cgroup" sys/fs/cgroup
	# Version 2 keeps processes and controllers in different cgroups.
	mkdir sys/fs/cgroup/init.scope
	echo 0 >sys/fs/cgroup/init.scope/cgroup.procs
	for controller in $(cat sys/fs/cgroup/cgroup.controllers); do
		echo "+$controller" >sys/fs/cgroup/cgroup.subtree_control
	done
else
	mount -t tmpfs -o nosuid,nodev,noexec,mode=0755 tmpfs sys/fs/cgroup
	for hierarchy in /sys/fs/cgroup/*; do
		if [ -L "$hierarchy" ]; then
			ln -s "$(readlink "$hierarchy")" ".$hierarchy"
		elif [ -d "$hierarchy/$cgroup" ]; then
			mkdir ".$hierarchy"
			mount --bind "$hierarchy/$cgroup" ".$hierarchy"
		fi
	done
fi

# A shared kernel boots once: its boot id is the host's own.
echo "$boot_id" >run/boot_id
mount --bind run/boot_id proc/sys/kernel/random/boot_id
# The kernel lets user namespaces mount proc only where one is whole, with nothing mounted in it.
mkdir -p run/whole-proc
mount -t proc -o nosuid,nodev,noexec proc run/whole-proc
rm run/boot_id

mkdir -p .machine
pivot_root . .machine
cd /
umount -l /.machine
rmdir /.machine
# As on a machine with systemd, so that pods can share mounts.
mount --make-rshared /

echo "$hostname" >/proc/sys/kernel/hostname
echo 1 >/proc/sys/net/ipv4/ip_forward
ip link set lo up
# An interface with the host's address; the other end of the wire is loose.
ip link add eth0 type veth peer name wire0
ip addr add "$address" dev eth0
ip link set eth0 up
ip link set wire0 up

daemon_containerd() {
	# One of another version than the machine's stands there, and its shim.
	PATH=/opt/containerd/bin:$PATH
	exec containerd --config /etc/containerd/config.toml
}

daemon_sshd() {
	exec "$sshd" -D -e
}
