package simrpc

import (
	"context"
	"net/http"
	"net/url"

	"github.com/containerd/log"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fence"
)

// askLeader asks the server about the node's leaders.
func (c *client) askLeader(ctx context.Context, q fence.Request) (r fence.Record, err error) {
	const call = "ask who leads the node"
	if err := c.ready(call); err != nil {
		return r, err
	}
	var w warrant
	if q.Change != fence.Look {
		w.ask = func() error { return c.cfg.May.Ask("change who leads the node") }
	}
	err = c.post(ctx, call, leaderPath, w, q, &r)
	return r, err
}

// lead takes the node as soon as there is a connection, so that a leader that cannot see
// this one learns of it. The first change tries it again.
func (c *client) lead(ctx context.Context) {
	if c.leader == nil {
		return
	}
	if _, err := c.leader.Holder(ctx); err != nil {
		log.G(ctx).WithError(err).Debug("the node is not taken yet")
	}
}

// serveLeader answers what is asked about a node's leaders.
func (s *Server) serveLeader(w http.ResponseWriter, r *http.Request) {
	var q fence.Request
	if !read(w, r, &q) {
		return
	}
	node := r.Header.Get(nodeHeader)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaders == nil {
		s.leaders = map[string]fence.Record{}
	}
	s.leaders[node] = q.Apply(s.leaders[node])
	writeJSON(w, http.StatusOK, s.leaders[node])
}

// led is nil if whoever asks for a change may have it.
func (s *Server) led(r *http.Request) error {
	value := r.Header.Get(leaderHeader)
	if value == "" {
		return nil
	}
	holder, err := url.QueryUnescape(value)
	if err != nil {
		return backend.Errorf(backend.ErrInvalid, "read header %s: %w", leaderHeader, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leaders[r.Header.Get(nodeHeader)].Check(holder)
}
