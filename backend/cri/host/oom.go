package host

// OOMRequest says which kills are known.
type OOMRequest struct {
	// After is the mark of the last ones; empty: none, and none of those before now.
	After string
	// MaxKills bounds a reply; the rest comes with the next one. 0 is as many as there are.
	MaxKills int
}

// OOMKills are processes that the kernel killed for want of memory of the whole host, in
// their order. Mark stands after the last one; it names the boot, too.
type OOMKills struct {
	Kills []OOMKill
	Mark  string
}

// OOMKill is a process with its name, as the kernel has it, and its id.
type OOMKill struct {
	Process string
	PID     int
}
