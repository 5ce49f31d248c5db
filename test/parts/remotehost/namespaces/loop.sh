# The part of PID 1 that minds daemons; it follows the caller's script, which
# defines a function daemon_NAME for each daemon.
# Input:  "start NAME", or "kill PID" with a PID as reported.
# Reports, lines of the log: "init: ready", then "init: pid NAME PID" and "init: exited
# NAME CODE" of daemons. There, what a daemon wrote stands before the report of its end.

# The last line of a daemon may have no end.
report() {
	printf '\ninit: %s\n' "$*" >&2
}

run_daemon() {
	"daemon_$1" </dev/null >&2 &
	pid=$!
	report pid "$1" "$pid"
	code=0
	wait "$pid" || code=$?
	report exited "$1" "$code"
}

control() {
	while read -r verb arg; do
		case $verb in
		start) (run_daemon "$arg" &) ;; # PID 1's to reap
		kill) kill -9 "$arg" ;;
		esac
	done
}

report ready
# Orphans become children of PID 1: waiting for control reaps them too.
exec 3<&0 </dev/null
control <&3 3<&- &
exec 3<&-
wait "$!"
