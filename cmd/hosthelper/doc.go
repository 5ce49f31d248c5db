// Command hosthelper does the host operations on a host of pods: it is what
// burstlet puts there and starts over SSH, and talks to on the standard input and
// output. It is one static file without Kubernetes' libraries, and burstlet carries
// it (package helper/binary). It logs to the standard error.
//
// It ends when its input ends, or on SIGTERM or SIGHUP, when the operations under
// way have ended: each leaves what the next process goes on from.
package main
