package simrpc

import (
	"context"
	"io"
	"net/http"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/intercept"
)

// warrant is what a request has that changes something. The zero warrant is that of one
// that reads.
type warrant struct {
	// leader is whose change it is; empty: there is no election.
	leader string
	// ask permits it at the moment it is sent.
	ask func() error
}

// changing returns what each call of the contract does that changes something.
func changing() map[intercept.Name]string {
	all := map[intercept.Name]string{}
	for _, m := range intercept.Methods() {
		if !m.Reads {
			all[m.Name] = m.Does
		}
	}
	return all
}

// warrant returns that of a call. A node that its leader has not taken is taken first.
func (c *client) warrant(ctx context.Context, call intercept.Name) (w warrant, err error) {
	does, changes := c.changes[call]
	if !changes {
		return warrant{}, nil
	}
	w.ask = func() error {
		err := c.cfg.May.Ask(does)
		if err != nil && call == intercept.PodsLaunch {
			err = backend.Unmade(err)
		}
		return err
	}
	if c.leader != nil {
		w.leader, err = c.leader.Holder(ctx)
	}
	return w, err
}

// permit is nil if the request may be sent now.
func (w warrant) permit() error {
	if w.ask == nil {
		return nil
	}
	return w.ask()
}

// hold makes net/http ask for the permission when it begins to send the request. The first
// read of the body is when a connection is there, and nothing is written yet.
func (w warrant) hold(req *http.Request) {
	body := req.GetBody
	req.Body = io.NopCloser(w.reader(req.Body))
	req.GetBody = func() (io.ReadCloser, error) {
		again, err := body()
		return io.NopCloser(w.reader(again)), err
	}
}

func (w warrant) reader(body io.Reader) io.Reader { return &leaving{permit: w.permit, body: body} }

// leaving is the body of a request. It asks once: what follows the first bytes can no
// longer be held back.
type leaving struct {
	permit func() error
	asked  bool
	body   io.Reader
}

func (l *leaving) Read(p []byte) (int, error) {
	if !l.asked {
		if err := l.permit(); err != nil {
			return 0, &refusal{err}
		}
		l.asked = true
	}
	return l.body.Read(p)
}

// refusal is the error of a request that was not sent.
type refusal struct{ error }
