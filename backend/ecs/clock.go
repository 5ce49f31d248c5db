package ecs

import (
	"sync"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
)

// clock converts ECS's times to this machine's. The offset comes from the Date of
// answers. It changes only where an answer proves it wrong, so that a time once
// converted stays what it was, in the next process too.
type clock struct {
	mu     sync.Mutex
	offset time.Duration // of ECS's clock, ahead of ours
}

// clockTolerance is by how much the offset may be wrong before it changes.
const clockTolerance = 2 * time.Second

// measure takes the answer to a call that began at a time here.
func (c *clock) measure(begin time.Time, md middleware.Metadata) {
	date, dated := awsmiddleware.GetServerTime(md)
	end, ended := awsmiddleware.GetResponseAt(md)
	// The SDK measures no skew by what a cache answered.
	if _, ok := awsmiddleware.GetAttemptSkew(md); ok && dated && ended {
		c.saw(begin, end, date)
	}
}

// saw takes the Date, in whole seconds, that was written between begin and end here: the
// longer a call took, the less it says.
func (c *clock) saw(begin, end, date time.Time) {
	least, most := date.Sub(end), date.Add(time.Second).Sub(begin)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.offset < least-clockTolerance || c.offset > most+clockTolerance {
		c.offset = least + (most-least)/2
	}
}

// local is the time here, zero for nil.
func (c *clock) local(t *time.Time) time.Time {
	if t == nil || t.IsZero() {
		return time.Time{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return t.Add(-c.offset)
}
