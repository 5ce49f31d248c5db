package backendtest

import (
	"context"
)

// shutdownOfHost: a host that stays up says so at once to who thinks otherwise, and lets who
// waits for its shutdown go with the context.
func shutdownOfHost(s *suite) {
	is, err := s.Shutdown.Await(s.Context(), true)
	s.must(err)
	if is {
		s.Error("the host shuts down")
	}
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if is, err := s.Shutdown.Await(ctx, false); is || err == nil {
		s.Errorf("it waits on: %v, %v", is, err)
	}
}
