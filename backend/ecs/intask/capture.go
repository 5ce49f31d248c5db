package intask

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"time"
)

// maxOutput bounds, in bytes, what is kept of a command's output and read of a
// response (kubelet: maxReadLength, maxRespBodyLength).
const maxOutput = 10 << 10

// drainTime is how long after a command's end what it wrote is still read, while
// others hold its pipes.
const drainTime = time.Second

// capture is a pipe whose first bytes are kept. All is read, so that who writes is
// not disturbed.
type capture struct {
	r, w *os.File
	done chan struct{}
	mu   sync.Mutex
	kept bytes.Buffer
}

func newCapture() (*capture, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &capture{r: r, w: w, done: make(chan struct{})}, nil
}

// begin reads, after the other side was given away.
func (c *capture) begin() {
	_ = c.w.Close() // the command has its own
	go func() {
		defer close(c.done)
		buf := make([]byte, 4<<10)
		for {
			n, err := c.r.Read(buf)
			c.mu.Lock()
			c.kept.Write(buf[:min(n, maxOutput-c.kept.Len())])
			c.mu.Unlock()
			if err != nil {
				return // EOF, or closed
			}
		}
	}()
}

// text is what was kept when all was read, or a moment after.
func (c *capture) text() string {
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept.String()
}

// close ends reading. Who still writes gets EPIPE, as with containerd.
func (c *capture) close() {
	_ = c.w.Close() // perhaps once more
	_ = c.r.Close() // what was kept stays
}

// clip bounds output and makes it text: the API takes nothing but UTF-8.
func clip(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxOutput)], "\uFFFD")
}
