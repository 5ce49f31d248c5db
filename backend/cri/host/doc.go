// Package host is what a container runtime cannot do on the pods' host: the host
// operations. They are few, they are listed in [Host], and they are the same
// whether the host is this machine or another.
//
//	local    does them on the machine it runs on (Linux, as root)
//	helper   carries them over a byte stream: Serve on the host, a client here
//
// Each operation is one round trip, however many steps it has. None keeps
// anything in memory that must survive: what was made stands in the host's file
// system, where the next process finds it.
package host
