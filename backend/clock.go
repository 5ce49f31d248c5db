package backend

import (
	"fmt"
	"time"
)

const (
	// tolerableSkew is a difference of clocks that nobody notices: it is less than what
	// a lease or a token is short of its end when it is renewed.
	tolerableSkew = 2 * time.Second
	// fatalSkew is what is allowed for: AWS refuses requests signed further off
	// ("Signature Version 4"), and kube-controller-manager backdates the certificates
	// that it signs by so much.
	fatalSkew = 5 * time.Minute
	// dateResolution is that of the header Date (HTTP).
	dateResolution = time.Second
)

// Clock is what is known of the clock of a server that answered.
type Clock struct {
	// Skew is how much it is ahead of ours, give or take Doubt.
	Skew, Doubt time.Duration
}

// ClockOf reads the clock from the date of a reply to a request that was sent before
// and answered after. The header leaves out the fraction of a second.
func ClockOf(date, before, after time.Time) Clock {
	trip := after.Sub(before)
	return Clock{
		Skew:  date.Add(dateResolution / 2).Sub(before.Add(trip / 2)),
		Doubt: trip/2 + dateResolution/2,
	}
}

// Judge says whether it is near enough. whose is the server's, "AWS's"; fatally is what
// becomes of it when it is far off.
func (c Clock) Judge(what, whose, advice, fatally string) Finding {
	detail := fmt.Sprintf(
		"%s is %s off, give or take %s", whose, c.Skew.Round(100*time.Millisecond), c.Doubt.Round(100*time.Millisecond),
	)
	switch off := c.Skew.Abs() - c.Doubt; {
	case off > fatalSkew:
		return Bad(what, detail, advice+": "+fatally)
	case off > tolerableSkew:
		return Doubtful(what, detail, advice)
	default:
		return Good(what, detail)
	}
}
