# Makes the disk of a Debian 13 host.
#   $1 the file to make   $2 a mirror of Debian
# It runs in mount and PID namespaces of its own: nothing that it mounts or starts
# outlives it.
set -eu
image=$1 mirror=$2
cache=$(dirname "$image")

mkdir -p "$cache"
exec 9>"$cache/debianhost.lock"
flock 9
[ ! -e "$image" ] || exit 0
rm -rf "$cache"/debianhost-build-*
build=$(mktemp -d "$cache/debianhost-build-XXXXXX")
trap 'rm -rf "$build"' EXIT
root=$build/root

mount --make-rprivate /
TMPDIR=$build mmdebstrap --quiet --mode=root --variant=minbase \
	--include=systemd-sysv,udev,dbus,kmod,procps,iproute2,iptables,openssh-server,containerd,runc,containernetworking-plugins \
	trixie "$root" "$mirror" >&2

# The kernel is the program of user-mode-linux; its modules belong to it.
mkdir -p "$root/usr/lib/modules"
cp --archive --target-directory "$root/usr/lib/modules" /usr/lib/uml/modules/*
# It has no NAT chains of nftables.
for iptables in iptables ip6tables; do
	chroot "$root" update-alternatives --quiet --set $iptables /usr/sbin/$iptables-legacy
done

echo '/dev/ubda / ext4 noatime 0 0' >"$root/etc/fstab"
cat >"$root/etc/systemd/network/10-eth0.network" <<'EOF'
[Match]
Name=eth0
[Network]
Address=198.19.0.2/30
Gateway=198.19.0.1
LinkLocalAddressing=no
EOF
: >"$root/etc/resolv.conf"
chroot "$root" systemctl --quiet enable systemd-networkd containerd ssh
# Nothing is to happen by itself, and nobody sits at a console.
chroot "$root" systemctl --quiet mask systemd-networkd-wait-online.service systemd-timesyncd.service \
	getty.target console-getty.service ssh.socket systemd-tmpfiles-clean.timer apt-daily.timer apt-daily-upgrade.timer \
	dpkg-db-backup.timer fstrim.timer e2scrub_all.timer e2scrub_reap.service
rm -f "$root"/etc/ssh/ssh_host_*
: >"$root/etc/machine-id"

cat >"$root/usr/sbin/seeded-init" <<'EOF'
#!/bin/sh
# Takes what makes this host another one from the second disk, once, and becomes systemd.
if [ ! -e /etc/seeded ]; then
	[ -e /dev/ubdb ] || mount -t devtmpfs devtmpfs /dev
	tar --extract --file /dev/ubdb --directory / && touch /etc/seeded
fi
exec /lib/systemd/systemd
EOF
chmod 0755 "$root/usr/sbin/seeded-init"

rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/*
mke2fs -q -t ext4 -d "$root" "$build/disk" 5G
mv "$build/disk" "$image"
