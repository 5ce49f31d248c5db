// Package cfs turns requests and limits of processors into what the kernel's scheduler
// enforces: shares, and a quota of each period. It imports nothing, since the host helper has
// it too.
package cfs
