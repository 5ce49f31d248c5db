package kubeletapi

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/containerd/log"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/burstlet/burstlet/backend"
)

// The audit trail tells who reaches into pods. It has lines of level Info with fixed
// messages and fields (docs/security.md lists them), and never what was typed, nor the
// command, its first word included, nor the text of an error, which can repeat it.
const (
	auditBegan   = "audit: session began"
	auditEnded   = "audit: session ended"
	auditRefused = "audit: session refused"
)

// How sessions end.
const (
	outcomeCompleted = "completed"
	outcomeFailed    = "failed"
	outcomeClosed    = "closed" // by the client, or because this process ends
)

// maxForwardedFor bounds what is repeated of a header: anybody may write anything there.
const maxForwardedFor = 256

// callerKey is the key of a request's context for the user's name.
type callerKey struct{}

// withCaller notes who the caller is.
func withCaller(r *http.Request, name string) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, name))
}

// audited is true for the buckets of paths that reach into a pod.
func audited(bucket string) bool {
	switch bucket {
	case "attach", "checkpoint", "exec", "portForward", "run":
		return true
	}
	return false
}

// entry has what every line of the trail tells of a request.
func auditEntry(r *http.Request) *log.Entry {
	user, _ := r.Context().Value(callerKey{}).(string)
	fields := log.Fields{"audit": bucket(r.URL.Path), "user": user, "from": r.RemoteAddr}
	if via := strings.Join(r.Header.Values("X-Forwarded-For"), ","); via != "" {
		fields["forwardedFor"] = via[:min(len(via), maxForwardedFor)]
	}
	return log.G(r.Context()).WithFields(fields)
}

// session is one reach into a pod.
type session struct {
	entry *log.Entry
	began time.Time
	// err and code are how it ended, once it is over; code is that of a command.
	over bool
	err  error
	code *int32
}

// audit begins the trail of a session.
func (s *Server) audit(r *http.Request) *session {
	x := &session{entry: s.auditPod(r).WithField("session", string(uuid.NewUUID())), began: time.Now()}
	x.entry.Info(auditBegan)
	return x
}

// auditPod is the entry of a request with the pod that it names.
func (s *Server) auditPod(r *http.Request) *log.Entry {
	pod := podRef(r)
	entry := auditEntry(r).WithFields(log.Fields{
		"pod": pod.Namespace + "/" + pod.Name, "uid": cmp.Or(s.cfg.Engine.PodUID(pod), pod.UID),
	})
	if container := r.PathValue("container"); container != "" {
		entry = entry.WithField("container", container)
	}
	return entry
}

// result notes how the session ended. What failed after its context had ended was closed.
func (x *session) result(ctx context.Context, err error) {
	x.err, x.over = err, err == nil || ctx.Err() == nil
}

// exited notes how a command ended.
func (x *session) exited(ctx context.Context, code int32, err error) {
	if x.result(ctx, err); err == nil {
		x.code = &code
	}
}

// end ends the trail.
func (x *session) end() {
	entry := x.entry.WithField("duration", time.Since(x.began).Round(time.Millisecond))
	switch {
	case !x.over:
		entry = entry.WithField("outcome", outcomeClosed)
	case x.err == nil:
		entry = entry.WithField("outcome", outcomeCompleted)
	default:
		entry = entry.WithFields(log.Fields{"outcome": outcomeFailed, "class": backend.Class(x.err)})
	}
	if x.code != nil {
		entry = entry.WithField("exitCode", *x.code)
	}
	entry.Info(auditEnded)
}

// refuse refuses a session, and says so in the trail.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	s.auditPod(r).WithField("class", backend.Class(err)).Info(auditRefused)
	fail(w, r, err)
}

// forbidden are refusals of callers without the right, of whom there may be many.
type forbidden struct{ limit *rate.Limiter }

func newForbidden() forbidden { return forbidden{rate.NewLimiter(1, 10)} }

// note says in the trail that a caller may not reach into a pod.
func (f forbidden) note(r *http.Request) {
	if audited(bucket(r.URL.Path)) && f.limit.Allow() {
		path := r.URL.Path
		auditEntry(r).WithFields(log.Fields{
			"path": path[:min(len(path), maxForwardedFor)], "class": "Forbidden",
		}).Info(auditRefused)
	}
}
