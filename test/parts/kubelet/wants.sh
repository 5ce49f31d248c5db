# Starts a kubelet in a mount namespace of its own, whose mounts are the host's
# too. The kernel settings that a kubelet wants are those of the machine and not
# its to change: it reads files that hold them.
#   $1 the kubelet, and its arguments
set -eu
# What is mounted below /proc from here on is not seen by the host.
mount --make-private /proc
mkdir -p /run/kubelet-wants
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
	kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
	file=/run/kubelet-wants/$(echo "${setting%=*}" | tr / .)
	echo "${setting#*=}" >"$file"
	mount --bind "$file" "/proc/sys/${setting%=*}"
done
exec "$@"
