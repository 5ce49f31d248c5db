// Package shell runs command lines as a busybox image would, without starting a
// process: [Run] interprets them against a [Machine], which says what a process
// sees and what it may change.
//
// It knows these commands:
//
//	true, false, exit N        exit at once with 0, 1, N
//	sleep N, sleep infinity    exit 0 after N seconds (or 5m, 1h), or never
//	echo, env, printenv, hostname, pwd, date, id, whoami, ps, stty, tty, test, [,
//	ls, cat, head, tail, wc, grep, tar
//	                           write their output and exit at once
//	touch, rm, mkdir, > and >> change files
//	sh, cat                    read the input
//	trap '' TERM               ignore TERM from here on
//	serve PORT ready-after=3s fail-after=10s
//	                           listen from 3 s after the start, answer 200 to
//	                           HTTP, 500 from 10 s after it; both are optional
//	httpd -p PORT              the same
//	nc -ll -p PORT -e cat      listen and echo
//	use cpu=250m memory=64Mi   use so much from here on, within the limits
//	sh -c "A; B && C || D | E" a script of these, with NAME=value, $NAME, $?, cd,
//	                           export and redirects
//
// The machine decides what becomes of anything else.
//
// The package owns no state: whatever outlives a command is the machine's. It
// imports [github.com/burstlet/burstlet/backend/sim/terminal], and its own script for the
// syntax, and nothing else of the project.
//
// It is large because there are many commands; each is short, and they share the streams and
// the files of a process.
package shell
