package plan

import "github.com/burstlet/burstlet/backend"

// initialised is true once app containers may start; failed if they never will.
// Init containers run again in a new sandbox.
//
//	an app container was made in the sandbox   initialised
//	init container                             has ended with 0
//	sidecar                                    is up, or a later one was begun
func (v view) initialised() (done, failed bool) {
	if v.appsInSandbox() {
		return true, false
	}
	if v.sandbox() == nil && v.allDone() {
		return true, false
	}
	begun := v.begun()
	for i, m := range v.inits {
		if m.role == sidecarRole {
			if i >= begun && !v.up(m) {
				return false, false
			}
			continue
		}
		s := v.step(m)
		if s.verb != finished {
			return false, false
		}
		if s.code != 0 {
			return false, true
		}
	}
	return true, false
}

// begun is the place of the last init container that was started in the live
// sandbox: those before it have had their turn.
func (v view) begun() int {
	for i := len(v.inits) - 1; i >= 0; i-- {
		if cur := v.current(v.inits[i].Name); cur != nil && v.inSandbox(cur) && !v.outdated(v.inits[i], cur) &&
			!cur.StartedAt.IsZero() {
			return i
		}
	}
	return 0
}

// startInits starts the next init container, and every sidecar whose turn has
// come and that does not run: those are kept running as long as the pod is.
func (v view) startInits(p *Plan, initialised bool) {
	begun := v.begun()
	for i, m := range v.inits {
		s := v.step(m)
		if m.role == sidecarRole {
			if s.verb == start {
				v.start(p, m, s)
			}
			if !initialised && i >= begun && !v.up(m) {
				return
			}
			continue
		}
		if initialised || s.verb == finished {
			continue
		}
		if s.verb == start {
			v.start(p, m, s)
		}
		return
	}
}

// up is true for a container that runs in the live sandbox and has started:
// its postStart hook and its startup probe succeeded.
func (v view) up(m podContainer) bool {
	cur := v.current(m.Name)
	return cur != nil && v.inSandbox(cur) && !v.outdated(m, cur) && cur.State() == backend.Running && v.started(m, cur)
}

// appsInSandbox is true once an app container was made in the live sandbox, in this round.
func (v view) appsInSandbox() bool {
	for _, c := range v.apps {
		if cur := v.current(c.Name); cur != nil && v.inSandbox(cur) && !v.outdated(c, cur) {
			return true
		}
	}
	return false
}

func (v view) inSandbox(c *ContainerAttempt) bool { return c.Pod == v.sandbox() }

// allDone is true when every app container has ended for good.
func (v view) allDone() bool {
	for _, m := range v.apps {
		if v.step(m).verb != finished {
			return false
		}
	}
	return true
}
