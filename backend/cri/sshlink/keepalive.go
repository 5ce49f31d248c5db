package sshlink

import (
	"fmt"
	"net"
	"time"
)

// keepAliveConfig makes the kernel notice a host that went away while a
// connection is being set up or ended.
var keepAliveConfig = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// unacknowledged is how long sent data may stay without an acknowledgement
// before the kernel gives up. It is longer than the keepalive takes, which knows
// better.
const unacknowledged = 30 * time.Second

// keepAlive asks for an answer every interval, and ends the connection when
// nothing at all arrived while limit requests went by: a dead link is noticed
// within limit to limit+1 intervals, and a shorter gap is left to TCP. What arrives
// counts as an answer, since an answer queues behind it.
func (c *connection) keepAlive(interval time.Duration, limit int) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	asked := make(chan struct{}, 1)
	seen, missed, waiting := c.raw.arrived.Load(), 0, false
	for {
		select {
		case <-c.dead:
			return
		case <-ticker.C:
		}
		if arrived := c.raw.arrived.Load(); arrived != seen {
			seen, missed = arrived, 0
		} else if waiting {
			missed++
		}
		if missed >= limit {
			c.fail(fmt.Errorf("no answer for %s", time.Duration(limit)*interval))
			return
		}
		waiting = true
		// Sending can block as well, so it is not done here.
		select {
		case asked <- struct{}{}:
			if !c.spawn(func() { c.askAlive(asked) }) {
				return
			}
		default:
		}
	}
}

// askAlive sends one request and waits for its answer: any will do, and an error
// ends the connection without us.
func (c *connection) askAlive(asked <-chan struct{}) {
	defer func() { <-asked }()
	began := time.Now()
	_, _, err := c.client.SendRequest("keepalive@openssh.com", true, nil)
	switch {
	case err == nil:
		c.roundTrip.Store(int64(time.Since(began)))
	case !c.dying():
		c.fail(fmt.Errorf("send a keepalive: %w", err))
	}
}
