# PID 1 of a container host; see doc.go. Started in the state directory, in
# mount, network, UTS and PID namespaces of its own.
#   $1 state directory   $2 host name   $3 containerd binary
# Input:  "start", or "kill PID" with a PID as reported.
# Output: "ready SNAPSHOTTER", then "pid PID" and "exited CODE" of containerd.
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

# The state directory's file system may not carry overlays (it may be one).
snapshotter=native
mkdir -p probe/lower probe/upper probe/work probe/merged
if mount -t overlay overlay -o lowerdir=probe/lower,upperdir=probe/upper,workdir=probe/work probe/merged; then
	umount probe/merged
	snapshotter=overlayfs
fi
rm -rf probe
echo "ready $snapshotter"

run_containerd() {
	"$containerd" --config "$state/config.toml" </dev/null >&2 &
	echo "pid $!"
	code=0
	wait "$!" || code=$?
	echo "exited $code"
}

control() {
	while read -r verb arg; do
		case $verb in
		start) (run_containerd &) ;; # PID 1's to reap
		kill) kill -9 "$arg" ;;
		esac
	done
}

# Orphans become children of PID 1: waiting for control reaps them too.
exec 3<&0 </dev/null
control <&3 3<&- &
exec 3<&-
wait "$!"
