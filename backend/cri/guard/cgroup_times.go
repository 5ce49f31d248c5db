package guard

import (
	"sync/atomic"
	"time"
)

// CgroupTimes tells how long what is done to pods' cgroups takes on the host.
type CgroupTimes struct {
	observe atomic.Pointer[func(operation string, took time.Duration)]
}

// Tell has it told to whoever asked last.
func (c *CgroupTimes) Tell(observe func(operation string, took time.Duration)) {
	c.observe.Store(&observe)
}

// note notes one operation; of 0 none was made.
func (c *CgroupTimes) note(operation string, took time.Duration) {
	if observe := c.observe.Load(); observe != nil && took > 0 {
		(*observe)(operation, took)
	}
}
