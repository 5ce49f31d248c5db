package backendtest

import "context"

// oomsOfHost: who asks for the first time is given a mark at once and no kill, and who waits
// for one goes with the context.
func oomsOfHost(s *suite) {
	first, err := s.SystemOOMs.Await(s.Context(), "")
	s.must(err)
	if len(first.Kills) > 0 || first.Mark == "" {
		s.Errorf("asked for the first time: %+v", first)
	}
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if got, err := s.SystemOOMs.Await(ctx, first.Mark); len(got.Kills) > 0 || err == nil {
		s.Errorf("it waits on: %+v, %v", got, err)
	}
}
