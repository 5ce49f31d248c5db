package fault

import (
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ErrInjected is in the errors that a Script makes itself: a lost reply, a listing
// that breaks off. What fails without it failed by itself. Whoever gives Fault.Err
// puts it in where that matters.
var ErrInjected = errors.New("injected")

// Call is one call that is about to be made.
type Call struct {
	Method Method
	// N counts the calls of this method from 0.
	N int
	// UID is the pod where the call is about one; Container its container, Volume
	// its volume. Attempt is that of a Launch or a Start.
	UID       types.UID
	Container string
	Volume    string
	Attempt   int
}

// Fault is what goes wrong with one call. The zero value is nothing.
type Fault struct {
	// Delay passes before the call is made. If the context ends meanwhile, the
	// call is not made.
	Delay time.Duration
	// Err is returned and the call is not made.
	Err error
	// LoseReply makes the call and returns ErrUnavailable all the same.
	LoseReply bool
	// ReplyDelay passes after the call was made: what it read may be old by
	// then. If the context ends meanwhile, the reply is lost.
	ReplyDelay time.Duration
	// Late loses the reply of a call that makes something (a Launch, a Start, a Place
	// or an Exec: Method.Makes in the table) at once, and makes the call only so long
	// after: what was asked for appears when the caller has long gone on, or is another
	// process. A call that was made again meanwhile, with success, is settled: its late
	// twin finds the name taken and makes nothing. A command has no name and runs once
	// more. Script.Wait waits for late calls.
	Late time.Duration
	// Partial answers a listing with every second pod and ErrUnavailable. A
	// listing that is cut short must never be believed.
	Partial bool
	// Stale answers a listing with the answer before, without making the call,
	// unless that is older than Script.Stalest.
	Stale bool
	// Drop loses a hint.
	Drop bool
	// Repeat sends a hint so many times more.
	Repeat int
}

// Script says what goes wrong, and counts. It is safe for concurrent use.
type Script struct {
	// Decide is asked about every call that no rule of Add applies to; nil is
	// never a fault. It may be called from several goroutines, one at a time,
	// and must not call the Script. Set it before the first call.
	Decide func(Call) Fault
	// Skew is added to all times that listings give, as by a backend that measured
	// the offset of its remote's clock wrong. Set it before the first call.
	Skew time.Duration
	// Stalest bounds the age of stale answers, as Limits.Stale promises it; zero is
	// no bound. Set it before the first call.
	Stalest time.Duration

	late  sync.WaitGroup
	mu    sync.Mutex
	calls map[Method]int
	rules map[Method][]rule
	made  map[Call]int // successful calls that make something, N left out
}

type rule struct {
	fault Fault
	left  int
}

// Add applies a fault to the next times calls of a method. Rules for the same
// method apply one after the other.
func (s *Script) Add(m Method, times int, f Fault) {
	if times <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rules == nil {
		s.rules = map[Method][]rule{}
	}
	s.rules[m] = append(s.rules[m], rule{f, times})
}

// Fail returns err from the next times calls of a method, without making them.
func (s *Script) Fail(m Method, times int, err error) { s.Add(m, times, Fault{Err: err}) }

// Clear drops the rules that are left.
func (s *Script) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = nil
}

// Calls is how many calls of a method were begun, failed ones too.
func (s *Script) Calls(m Method) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[m]
}

// Wait returns when no late call is on its way.
func (s *Script) Wait() { s.late.Wait() }

// count returns how often a Launch, Start or Place succeeded, and adds to it.
func (s *Script) count(c Call, add int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.N = 0
	if s.made == nil {
		s.made = map[Call]int{}
	}
	s.made[c] += add
	return s.made[c]
}

// next counts a call and draws its fault.
func (s *Script) next(c Call) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls == nil {
		s.calls = map[Method]int{}
	}
	c.N = s.calls[c.Method]
	s.calls[c.Method]++
	if rules := s.rules[c.Method]; len(rules) > 0 {
		f := rules[0].fault
		if rules[0].left--; rules[0].left == 0 {
			s.rules[c.Method] = rules[1:]
		}
		return f
	}
	if s.Decide == nil {
		return Fault{}
	}
	return s.Decide(c)
}
