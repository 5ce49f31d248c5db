package kubeletapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// relistThreshold is the kubelet's: without a complete listing for so long, the
// loop that looks at the remote is not healthy.
const relistThreshold = 3 * time.Minute

// check is one named part of /healthz.
type check struct {
	name string
	run  func(now time.Time) error
}

func (s *Server) checks() []check {
	return []check{
		{"ping", func(time.Time) error { return nil }},
		{"pleg", s.checkRelist},
	}
}

// checkRelist fails when listings of the remote no longer come in. Before the
// first one, time counts from the start of the server.
func (s *Server) checkRelist(now time.Time) error {
	last := s.cfg.Engine.LastRelist()
	if last.IsZero() {
		if now.Sub(s.started) > relistThreshold {
			return errors.New("pleg has yet to be successful")
		}
		return nil
	}
	if elapsed := now.Sub(last); elapsed > relistThreshold {
		return fmt.Errorf("pleg was last seen active %v ago; threshold is %v",
			elapsed.Round(time.Second), relistThreshold)
	}
	return nil
}

// healthz runs all checks, or the one that the path names, and answers "ok" or
// 500 with every check's result.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	only := r.PathValue("check")
	var report strings.Builder
	found, failed := false, false
	for _, c := range s.checks() {
		if only != "" && only != c.name {
			continue
		}
		found = true
		if err := c.run(time.Now()); err != nil {
			failed = true
			fmt.Fprintf(&report, "[-]%s failed: %v\n", c.name, err)
			continue
		}
		fmt.Fprintf(&report, "[+]%s ok\n", c.name)
	}
	switch {
	case !found:
		http.NotFound(w, r)
	case failed:
		http.Error(w, report.String()+"healthz check failed", http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		// A client that went away is no error of ours.
		_, _ = w.Write([]byte("ok"))
	}
}
