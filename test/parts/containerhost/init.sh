# PID 1 of a container host; see doc.go. Started in the state directory, in
# namespaces of its own; namespaces/loop.sh follows.
#   $1 state directory   $2 host name   $3 containerd binary
set -eu
state=$1 containerd=$3

# Mounts made by the machine below the state directory still arrive here.
mount --make-rslave /
mount -t proc proc /proc
for dir in /run /var/lib /var/log; do
	mount -t tmpfs -o mode=0755 tmpfs "$dir"
done
for dir in /tmp /var/tmp; do
	mount -t tmpfs -o mode=1777 tmpfs "$dir"
done
# The state directory may lie below one of these: "." is still the real one.
mkdir -p "$state"
mount --no-canonicalize --bind . "$state"
cd "$state"
# As on a machine with systemd, so that pods can share mounts.
mount --make-rshared /

echo "$2" >/proc/sys/kernel/hostname
echo 1 >/proc/sys/net/ipv4/ip_forward
ip link set lo up

daemon_containerd() {
	exec "$containerd" --config "$state/config.toml"
}
