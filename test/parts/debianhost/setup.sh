# PID 1 of the namespaces that a Debian host's kernel runs in; namespaces/loop.sh of
# remotehost follows.
#   $1 its disk, which is only read   $2 where it writes   $3 the seed
set -eu
image=$1 written=$2 seed=$3

mount --make-rprivate /
mount -t proc -o nosuid,nodev,noexec proc /proc
# The host's memory is a file there, which no disk is to hold.
mkdir memory
mount -t tmpfs -o nosuid,nodev,mode=0700 tmpfs memory
ip link set lo up
ip tuntap add dev tap0 mode tap
ip addr add 198.19.0.1/30 dev tap0
ip link set tap0 up

daemon_kernel() {
	HOME=$PWD/memory TMPDIR=$PWD/memory exec linux.uml "ubd0=$written,$image" "ubd1r=$seed" root=/dev/ubda rw mem=2048M eth0=tuntap,tap0 \
		con=null con0=null,fd:1 ssl=null init=/usr/sbin/seeded-init systemd.show_status=false systemd.log_color=0
}
