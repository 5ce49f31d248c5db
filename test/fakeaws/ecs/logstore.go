package ecs

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Limits of CloudWatch Logs (user guide, "CloudWatch Logs quotas", and API).
const (
	maxLogEvents = 10000
	maxLogPage   = 1 << 20
	// eventOverhead is counted for each event of a page (API, PutLogEvents; that
	// pages count alike is undocumented).
	eventOverhead = 26
	maxLogNames   = 50
	maxLogGroup   = 512
	maxStreams    = 100
)

var groupPattern = regexp.MustCompile(`^[A-Za-z0-9_/.#-]{1,512}$`)

// retentions are CloudWatch Logs API, PutRetentionPolicy: retentionInDays.
var retentions = []int32{
	1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
}

// logGroup is a log group with its streams by name.
type logGroup struct {
	name      string
	created   time.Time
	retention int32 // days, 0: for ever
	streams   map[string]*logStream
}

func newLogGroup(name string, now time.Time) *logGroup {
	return &logGroup{name: name, created: now, streams: map[string]*logStream{}}
}

// logStream is what one container of a task writes. It stays when the task is
// forgotten.
type logStream struct {
	name      string
	created   time.Time
	task      *task
	container int
	written   *written // of a container that really runs, else nil
}

// starts is when its container started, if it has by now.
func (st *logStream) starts(now time.Time) (time.Time, bool) {
	c := &st.task.life.containers[st.container]
	if !c.ran() {
		return time.Time{}, false
	}
	at := st.task.created.Add(c.start)
	return at, !now.Before(at)
}

// stamped is a line with its time in milliseconds.
type stamped struct {
	ms   int64
	text string
}

// lines are what was written, by their number and at offsets from some start.
type lines interface {
	count(at time.Duration) int
	line(i int) (time.Duration, string)
}

// reading is a stream as it can be read at a time: its lines [from, to).
type reading struct {
	st       *logStream
	lines    lines
	base     time.Time
	from, to int
	ingest   time.Duration
}

// read finds the lines that were written long enough ago and that the group's
// retention keeps, within [start, end) in milliseconds (nil: no bound).
func (s *Server) read(g *logGroup, st *logStream, start, end *int64, now time.Time) reading {
	c := &st.task.life.containers[st.container]
	r := reading{st: st, ingest: s.cfg.Delays.Ingest}
	base, ok := st.starts(now)
	if !ok {
		return r
	}
	r.base, r.lines = base, c.lines()
	until := min(s.cfg.ingested(now.Sub(base)), c.end-c.start)
	if st.written != nil {
		r.base, r.lines = st.task.created, st.written
		until = s.cfg.ingested(now.Sub(r.base))
	}
	if until < 0 {
		return r
	}
	r.to = r.lines.count(until)
	if g.retention > 0 {
		r.from = r.first(now.AddDate(0, 0, -int(g.retention)).UnixMilli())
	}
	if start != nil {
		r.from = max(r.from, r.first(*start))
	}
	if end != nil {
		r.to = min(r.to, r.first(*end))
	}
	r.to = max(r.from, r.to)
	return r
}

// Numbers of the awslogs driver (aws/shim-loggers-for-containerd, logger/awslogs, whose code
// is moby's): it sends what it has every 5 s, also after its container has ended, leaves out
// empty lines, and splits those that are longer than an event may be, which counts 26 bytes
// beside its text (CloudWatch Logs API, InputLogEvent).
const (
	flushEvery   = 5 * time.Second
	maxEventText = 256<<10 - eventOverhead
)

// ingestTime is how long after it was flushed the n-th batch can be read. It is undocumented:
// 1 to 3 s is this server's assumption, and there are reports of more (aws/aws-sdk-net#1387).
func (c *Config) ingestTime(n time.Duration) time.Duration {
	if c.Delays.Ingest > 0 {
		return c.Delays.Ingest
	}
	return time.Second + n%5*500*time.Millisecond
}

// ingested is up to when the lines of a stream can be read by a time, both at offsets from
// its start.
func (c *Config) ingested(at time.Duration) time.Duration {
	if c.Kindness.LogsAtOnce {
		return at - c.Delays.Ingest
	}
	every := cmp.Or(c.Observed.FlushEvery, flushEvery)
	n := at / every
	for n > 0 && n*every+c.ingestTime(n) > at {
		n--
	}
	return n*every - 1 // what is written at that moment is in the next batch
}

func (r *reading) line(i int) stamped {
	at, text := r.lines.line(i)
	return stamped{r.base.Add(at).UnixMilli(), text}
}

// first is the number of the first line at a time or later.
func (r *reading) first(ms int64) int {
	lo, hi := 0, r.to
	for lo < hi {
		mid := (lo + hi) / 2
		if r.line(mid).ms < ms {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// forward are the lines from i on that fit a page, backward those before i.
func (r *reading) forward(i, limit int) []stamped {
	var out []stamped
	for size := 0; i < r.to && len(out) < limit; i++ {
		l := r.line(i)
		if size += len(l.text) + eventOverhead; size > maxLogPage && len(out) > 0 {
			break
		}
		out = append(out, l)
	}
	return out
}

func (r *reading) backward(i, limit int) []stamped {
	var out []stamped
	for size := 0; i > r.from && len(out) < limit; i-- {
		l := r.line(i - 1)
		if size += len(l.text) + eventOverhead; size > maxLogPage && len(out) > 0 {
			break
		}
		out = append(out, l)
	}
	slices.Reverse(out)
	return out
}

// names are the streams that are there by now and have a prefix, sorted.
func (g *logGroup) names(prefix string, now time.Time) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(g.streams)) {
		if _, there := g.streams[name].starts(now); there && strings.HasPrefix(name, prefix) {
			out = append(out, name)
		}
	}
	return out
}

// group finds a log group by name or ARN and asks for the right to read it.
func (s *Server) group(name, identifier *string, action, stream string) (*logGroup, *apiError) {
	if (name == nil) == (identifier == nil) {
		return nil, invalidParameter("You must include either logGroupIdentifier or logGroupName, but not both.")
	}
	n := value(name)
	if identifier != nil {
		n = strings.TrimSuffix(strings.TrimPrefix(*identifier, s.arnOf("logs", "log-group:")), ":*")
	}
	if e := s.authorize("logs:"+action, s.logARN(n)+":"+stream); e != nil {
		return nil, e
	}
	g := s.groups[n]
	if g == nil {
		return nil, failf("ResourceNotFoundException", "The specified log group does not exist.")
	}
	return g, nil
}

func (s *Server) logARN(group string) string { return s.arnOf("logs", "log-group:"+group) }

// stream finds a stream that is there by now.
func (g *logGroup) stream(name string, now time.Time) (*logStream, *apiError) {
	if st := g.streams[name]; st != nil {
		if _, there := st.starts(now); there {
			return st, nil
		}
	}
	return nil, failf("ResourceNotFoundException", "The specified log stream does not exist.")
}
