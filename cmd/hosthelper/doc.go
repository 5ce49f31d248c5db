// Command hosthelper does the host operations on a host of pods: it is what
// burstlet puts there and starts over SSH, and talks to on the standard input and
// output. It is one static file without Kubernetes' libraries, and burstlet carries
// it (package helper/binary). It logs to the standard error.
//
// It ends when its input ends, when the other side has been silent for a minute, or on
// SIGTERM or SIGHUP, and then once the operations under way have ended: each leaves what
// the next process goes on from. Calls of the container runtime are finished before. Where
// containers of its node run then, it leaves a process, of the same program, that rotates
// their logs until somebody is connected again or none runs; SIGTERM ends that one, and
// leaves none. On a host without pods it removes its own file.
package main
