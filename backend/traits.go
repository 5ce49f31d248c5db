package backend

// Traits are what an engine plans by: what a backend can do with pods, and its numbers.
// They stay the same for as long as the backend lives, and are plain values.
type Traits struct {
	Limits
	// Containers is true where single containers are started and ended
	// (Backend.Containers); else the pod is the unit of restart.
	Containers bool
	// Resizes is true where the resources of running containers can be changed
	// (Backend.Resize).
	Resizes bool
	// Places is true where volumes are placed apart from the launch (Backend.Files);
	// Refreshes where files that travelled in the launch can be renewed
	// (Backend.Refresh).
	Places, Refreshes bool
	// Pulls is true where images are pulled before the launch (Backend.Images).
	Pulls bool
	// Exec is true where commands can be run in containers (Backend.Exec), and Dial
	// where ports of pods can be reached (Backend.Dial).
	Exec, Dial bool
}

// PodUnit is true where the pod is the unit of restart: it is one thing that is
// launched, stopped and launched again. Else single containers are.
func (t Traits) PodUnit() bool { return !t.Containers }

// Traits are the backend's: what it lends, and its Limits.
func (b Backend) Traits() Traits {
	return Traits{
		Limits: b.Limits, Containers: b.Containers != nil, Resizes: b.Resize != nil,
		Places: b.Files != nil, Refreshes: b.Refresh != nil, Pulls: b.Images != nil,
		Exec: b.Exec != nil, Dial: b.Dial != nil,
	}
}
