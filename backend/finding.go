package backend

// Finding is one thing that was looked at before pods are run: on the way to a
// cluster, to a remote, or on it ("burstlet doctor").
type Finding struct {
	// What was looked at, in a word or two.
	What string
	// OK is false when something is wrong; Warn when pods can run all the same.
	OK, Warn bool
	// Detail is what was found, Advice what to do about it. Neither holds a secret.
	Detail, Advice string
}

// Good is a finding with nothing to do about it.
func Good(what, detail string) Finding { return Finding{What: what, OK: true, Detail: detail} }

// Doubtful is a finding with which pods run all the same.
func Doubtful(what, detail, advice string) Finding {
	return Finding{What: what, Warn: true, Detail: detail, Advice: advice}
}

// Bad is a finding with which pods do not run, or not as they should.
func Bad(what, detail, advice string) Finding {
	return Finding{What: what, Detail: detail, Advice: advice}
}
