package cri

import (
	"sync/atomic"
	"time"
)

// cgroupTimes tells how long what is done to pods' cgroups takes on the host.
type cgroupTimes struct {
	observe atomic.Pointer[func(operation string, took time.Duration)]
}

// tell has it told to whoever asked last.
func (c *cgroupTimes) tell(observe func(operation string, took time.Duration)) {
	c.observe.Store(&observe)
}

// note notes one operation; of 0 none was made.
func (c *cgroupTimes) note(operation string, took time.Duration) {
	if observe := c.observe.Load(); observe != nil && took > 0 {
		(*observe)(operation, took)
	}
}
