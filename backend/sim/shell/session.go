package shell

import "github.com/burstlet/burstlet/backend/sim/terminal"

// session is a shell that reads what to run from its input, line by line. On a
// terminal it prompts, and ^C ends a command but not the shell.
func (p *process) session(in source, tty *terminal.Terminal) Flow {
	for {
		p.prompt(tty)
		text, ended, alive := p.line(in)
		if !alive {
			if tty.TakeInterrupt() {
				p.status = ExitInterrupted
				continue
			}
			return Stay
		}
		if f := p.runLine(text, tty); f != Continue {
			return f
		}
		if ended {
			if tty != nil {
				p.Write(1, "\n") // after ^D the user's own prompt begins a line
			}
			return Exit
		}
	}
}

// prompt is busybox's.
func (p *process) prompt(tty *terminal.Terminal) {
	if tty == nil {
		return
	}
	sign := " # "
	if p.of.UID != 0 {
		sign = " $ "
	}
	p.Write(2, p.dir+sign)
}

// runLine runs one line. A mistake in it ends a script, but not a session.
func (p *process) runLine(text string, tty *terminal.Terminal) Flow {
	f := p.run(text)
	if f == Stay {
		p.Sleep(-1) // until somebody ends it
		if tty.TakeInterrupt() {
			p.status = ExitInterrupted
			return Continue
		}
		return Stay
	}
	if f == Exit && !p.exited && tty != nil {
		return Continue
	}
	return f
}
