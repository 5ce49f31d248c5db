package ecs

import "net/http"

// Fault changes the answers to the next calls of one action.
type Fault struct {
	// Action is the call it applies to, such as "RunTask".
	Action string
	// Service is ecs, logs, secretsmanager, s3 or sqs; empty is any that has the action.
	Service string
	// Skip lets that many calls of the action pass first.
	Skip int
	// Times is how many calls it applies to; 0 is one.
	Times int
	// Code refuses the call with this error before anything is done.
	Code, Message string
	// Status is the HTTP status of Code; 400 if zero.
	Status int
	// Failure makes RunTask answer 200 with this reason in failures[].
	Failure string
	// LoseReply does what was asked and then drops the connection.
	LoseReply bool
	// Garble does what was asked and answers 200 with members of wrong types.
	Garble bool
}

// Inject adds a fault behind those that wait already.
func (s *Server) Inject(f Fault) {
	f.Times = max(f.Times, 1)
	if f.Status == 0 {
		f.Status = http.StatusBadRequest
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// takeFault returns the first fault that waits for the action, using it up. Calls
// that a fault lets pass are not seen by those behind it.
func (s *Server) takeFault(service, action string) *Fault {
	for i, f := range s.faults {
		if f.Action != action || f.Service != "" && f.Service != service {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			return nil
		}
		if f.Times--; f.Times == 0 {
			s.faults = append(s.faults[:i:i], s.faults[i+1:]...)
		}
		return f
	}
	return nil
}

// Undescribed has DescribeTasks answer for a task with a failure of this reason (ECS API,
// "API failure reasons", which names others than MISSING); "" ends it.
func (s *Server) Undescribed(arn, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.findTask(arn); t != nil {
		t.undescribed = reason
	}
}
