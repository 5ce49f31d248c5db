// Package namespaces runs daemons in namespaces of their own (mount, network,
// UTS, IPC and PID): what the hosts of the tests are made of.
//
// A shell script runs as PID 1: first the caller's, which makes a host out of
// the namespaces and defines one function for each daemon, then loop.sh. It is
// told to start and kill daemons over its standard input and reports in the log
// that the daemons write, their standard error. The end of that input ends it,
// whether [Namespaces.Stop] closed it or the process that owned it was killed, and
// with PID 1 the kernel ends everything in the namespaces: nothing ever outlives
// its owner.
package namespaces
