package kubeletapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// The kubelet's thresholds: without a complete listing for so long, the loop that
// looks at the remote is not healthy; without a round for so long, the loop that
// works on pods (the longer of 5 min and twice its period of a minute).
const (
	relistThreshold = 3 * time.Minute
	loopThreshold   = 5 * time.Minute
)

// check is one named part of /healthz.
type check struct {
	name string
	run  func(now time.Time) error
}

// checks are the kubelet's but for "log", which looks at a buffer of klog's.
func (s *Server) checks() []check {
	return []check{
		{"ping", func(time.Time) error { return nil }},
		{"syncloop", s.checkLoop},
		{"pleg", s.checkRelist},
	}
}

// checkLoop fails when the engine's loop is stuck. Before its first round, others
// see to it that it begins.
func (s *Server) checkLoop(now time.Time) error {
	if last := s.cfg.Engine.LastLoop(); !last.IsZero() && now.After(last.Add(loopThreshold)) {
		return errors.New("sync Loop took longer than expected")
	}
	return nil
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

// healthz runs all checks but those that the query excludes, or the one that the
// path names. It answers "ok", with every check's result where the query asks for
// it (verbose), or 500 with every check's result.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	only, query := r.PathValue("check"), r.URL.Query()
	excluded := query["exclude"]
	var report strings.Builder
	found, failed := false, false
	for _, c := range s.checks() {
		if only != "" && only != c.name {
			continue
		}
		found = true
		if only == "" && slices.Contains(excluded, c.name) {
			excluded = slices.DeleteFunc(excluded, func(name string) bool { return name == c.name })
			fmt.Fprintf(&report, "[+]%s excluded: ok\n", c.name)
			continue
		}
		if err := c.run(time.Now()); err != nil {
			failed = true
			fmt.Fprintf(&report, "[-]%s failed: %v\n", c.name, err)
			continue
		}
		fmt.Fprintf(&report, "[+]%s ok\n", c.name)
	}
	if only == "" && len(excluded) > 0 {
		fmt.Fprintf(&report, "warn: some health checks cannot be excluded: no matches for %s\n", quoted(excluded))
	}
	switch {
	case !found:
		http.NotFound(w, r)
		return
	case failed:
		http.Error(w, report.String()+"healthz check failed", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	text := "ok"
	if query.Has("verbose") && only == "" {
		text = report.String() + "healthz check passed\n"
	}
	// A client that went away is no error of ours.
	_, _ = w.Write([]byte(text))
}

func quoted(names []string) string {
	names = slices.Sorted(slices.Values(names))
	for i, name := range names {
		names[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(names, ",")
}
