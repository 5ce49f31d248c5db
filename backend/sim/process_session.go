package sim

// exitInterrupt is the status of a command that ^C ended: 128 + SIGINT.
const exitInterrupt = 130

// session is a shell that reads what to run from its input, line by line. On a
// terminal it prompts, and ^C ends a command but not the shell.
func (p *process) session(in source, tty *terminal) flow {
	for {
		p.prompt(tty)
		text, ended, alive := p.line(in)
		if !alive {
			if tty.takeInterrupt() {
				p.status = exitInterrupt
				continue
			}
			return stays
		}
		if f := p.runLine(text, tty); f != goesOn {
			return f
		}
		if ended {
			if tty != nil {
				p.emit(1, "\n") // after ^D the user's own prompt begins a line
			}
			return ends
		}
	}
}

// prompt is busybox's.
func (p *process) prompt(tty *terminal) {
	if tty == nil {
		return
	}
	sign := " # "
	if uid, _ := p.user(); uid != 0 {
		sign = " $ "
	}
	p.emit(2, p.dir+sign)
}

// runLine runs one line. A mistake in it ends a script, but not a session.
func (p *process) runLine(text string, tty *terminal) flow {
	f := p.run(text)
	if f == stays {
		p.sleep(-1) // until somebody ends it
		if tty.takeInterrupt() {
			p.status = exitInterrupt
			return goesOn
		}
		return stays
	}
	if f == ends && !p.exited && tty != nil {
		return goesOn
	}
	return f
}
