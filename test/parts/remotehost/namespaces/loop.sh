# The part of PID 1 that minds daemons; it follows the caller's script, which
# defines a function daemon_NAME for each daemon.
# Input:  "start NAME", or "kill PID" with a PID as reported.
# Output: "ready", then "pid NAME PID" and "exited NAME CODE" of daemons.

run_daemon() {
	"daemon_$1" </dev/null >&2 &
	echo "pid $1 $!"
	code=0
	wait "$!" || code=$?
	echo "exited $1 $code"
}

control() {
	while read -r verb arg; do
		case $verb in
		start) (run_daemon "$arg" &) ;; # PID 1's to reap
		kill) kill -9 "$arg" ;;
		esac
	done
}

echo ready
# Orphans become children of PID 1: waiting for control reaps them too.
exec 3<&0 </dev/null
control <&3 3<&- &
exec 3<&-
wait "$!"
