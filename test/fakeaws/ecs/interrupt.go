package ecs

import "time"

// Interrupt ends a task now for a reason of AWS's own (ECS API, Task: stopCode).
func (s *Server) Interrupt(arn, stopCode, reason string) {
	s.interrupt(arn, stopCause{code: stopCode, reason: reason})
}

// InterruptSpot takes a task's Spot capacity back: SIGTERM at once, SIGKILL after
// its stopTimeout, which is two minutes at most (ECS developer guide, "Amazon ECS
// clusters for Fargate": Fargate Spot termination notices).
func (s *Server) InterruptSpot(arn string) {
	s.interrupt(arn, stopCause{code: "SpotInterruption", reason: "Your Spot Task was interrupted."})
}

// Retire ends a task because its host is maintained (ECS developer guide, "Task
// retirement and maintenance"). Which stop code it has is undocumented.
func (s *Server) Retire(arn string) {
	s.interrupt(arn, stopCause{
		code: "TerminationNotice", reason: "ECS is performing maintenance on the underlying infrastructure hosting the task",
	})
}

// FailHost ends a task because its host is gone: no container gets a signal, and
// none has an exit code. Code and text are undocumented in detail.
func (s *Server) FailHost(arn string) {
	s.interrupt(arn, stopCause{
		code: "InfrastructureHealth", reason: "InternalError: the underlying infrastructure hosting the task failed",
		abrupt: true,
	})
}

func (s *Server) interrupt(arn string, cause stopCause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pump(time.Now())
	if t := s.tasks[arn]; t != nil {
		if cause.at = s.age(t); cause.at < t.life.stopping {
			s.end(t, cause)
		}
	}
}

func (s *Server) end(t *task, cause stopCause) {
	t.user = cause
	if t.driver != nil {
		s.stopNow(t, cause)
		return
	}
	s.relive(t)
}
