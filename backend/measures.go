package backend

import "time"

// LinkFacts is one connection to the pods' host, counted from the start of this
// process.
type LinkFacts struct {
	// Name tells a backend's connections apart: "control", "streams".
	Name string
	// Up is true while it carries calls.
	Up bool
	// Connects counts how often it was made, Losses how often it then ended
	// though it was to stay.
	Connects, Losses uint64
	// Failures counts the attempts to make it that failed, by how far they came, a
	// bounded set of words: "setup", "reach", "host_key", "authenticate".
	Failures map[string]uint64
	// Received and Sent are bytes, as the network carries them.
	Received, Sent uint64
	// RoundTrip is how long the last sign of life took; 0 before the first.
	RoundTrip time.Duration
}

// CallFacts counts the requests that were sent to an API, retries too, from the start
// of this process.
type CallFacts struct {
	// Service and Call are in the remote's words: "ECS", "RunTask".
	Service, Call string
	// Outcome is "ok", "canceled", or the class of the error (Class).
	Outcome string
	Count   uint64
}

// QueueFacts is what waits here for a rate that the remote allows.
type QueueFacts struct {
	// Call is what waits, in the remote's words: "RunTask".
	Call string
	// Waiting is how many wait now.
	Waiting int
}
