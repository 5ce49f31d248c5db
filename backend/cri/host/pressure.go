package host

// Pressure is how long tasks of a cgroup waited for a resource (its *.pressure files, of
// version 2 alone); nil where the kernel does not count that.
type Pressure struct{ CPU, Memory, IO *Stalls }

// Stalls is the time in which some of the tasks waited, and in which all did.
type Stalls struct{ Some, Full StallTime }

// StallTime is in microseconds since the cgroup was made, and as shares of the last 10, 60
// and 300 seconds, in percent.
type StallTime struct {
	Total                uint64
	Avg10, Avg60, Avg300 float64
}
