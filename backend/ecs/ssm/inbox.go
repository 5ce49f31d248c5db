package ssm

// Bounds of frames that wait for an earlier one. The agent sends as fast as it can,
// and of what was lost only the oldest again, every 200 ms: what comes meanwhile must
// be kept (session-manager-plugin, config.go: IncomingMessageBufferCapacity).
const (
	maxAhead      = 10000
	maxAheadBytes = 16 << 20
)

// inbox puts the agent's frames into order. The zero value is that of a new session.
type inbox struct {
	expected int64
	ahead    map[int64]frame
	// bytes are those of ahead.
	bytes int
}

// take returns what may be handled now that f came, in order, and whether f is to
// be acknowledged: one for which there is no room comes again. room is false where
// nothing can be handled now.
func (i *inbox) take(f frame, room bool) (ready []frame, acknowledge bool) {
	switch {
	case f.sequence < i.expected:
		return nil, true // its acknowledgement was lost
	case f.sequence > i.expected:
		return nil, i.keep(f)
	case !room:
		return nil, false
	}
	for has := true; has; {
		ready = append(ready, f)
		i.expected++
		if f, has = i.ahead[i.expected]; has {
			delete(i.ahead, i.expected)
			i.bytes -= len(f.payload)
		}
	}
	return ready, true
}

// keep keeps a frame until its turn; it is false where there is no room for it.
func (i *inbox) keep(f frame) bool {
	if _, has := i.ahead[f.sequence]; has {
		return true
	}
	if len(i.ahead) >= maxAhead || i.bytes+len(f.payload) > maxAheadBytes {
		return false
	}
	if i.ahead == nil {
		i.ahead = map[int64]frame{}
	}
	i.ahead[f.sequence] = f
	i.bytes += len(f.payload)
	return true
}
