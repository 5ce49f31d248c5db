package ecs

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func (s *Server) logsActions() map[string]handler {
	return map[string]handler{
		"CreateLogGroup":     s.createLogGroup,
		"DeleteLogGroup":     s.deleteLogGroup,
		"DescribeLogGroups":  s.describeLogGroups,
		"PutRetentionPolicy": s.putRetentionPolicy,
		"DescribeLogStreams": s.describeLogStreams,
		"DeleteLogStream":    s.deleteLogStream,
		"GetLogEvents":       s.getLogEvents,
		"FilterLogEvents":    s.filterLogEvents,
	}
}

type getEventsInput struct {
	LogGroupName       *string `json:"logGroupName"`
	LogGroupIdentifier *string `json:"logGroupIdentifier"`
	LogStreamName      *string `json:"logStreamName"`
	StartTime          *int64  `json:"startTime"`
	EndTime            *int64  `json:"endTime"`
	Limit              *int32  `json:"limit"`
	NextToken          *string `json:"nextToken"`
	StartFromHead      *bool   `json:"startFromHead"`
	Unmask             bool    `json:"unmask"`
}

// getLogEvents is CloudWatch Logs API, GetLogEvents: tokens are never null, and
// the one at an end comes back as it was.
func (s *Server) getLogEvents(c *request) (any, *apiError) {
	var in getEventsInput
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	limit, e := limitOf(in.Limit)
	if e != nil {
		return nil, e
	}
	if value(in.LogStreamName) == "" {
		return nil, invalidParameter("logStreamName is required.")
	}
	g, e := s.group(in.LogGroupName, in.LogGroupIdentifier, c.action, "log-stream:"+*in.LogStreamName)
	if e != nil {
		return nil, e
	}
	st, e := g.stream(*in.LogStreamName, c.now)
	if e != nil {
		return nil, e
	}
	r := s.read(g, st, in.StartTime, in.EndTime, c.now)
	lines, first, e := r.page(&in, limit)
	if e != nil {
		return nil, e
	}
	events := []any{}
	for _, l := range lines {
		events = append(
			events, map[string]any{"timestamp": l.ms, "message": l.text, "ingestionTime": l.ms + r.ingest.Milliseconds()},
		)
	}
	return map[string]any{
		"events": events, "nextForwardToken": "f/" + strconv.Itoa(first+len(lines)),
		"nextBackwardToken": "b/" + strconv.Itoa(first),
	}, nil
}

// page are the lines that a request wants, and the number of the first.
func (r *reading) page(in *getEventsInput, limit int) ([]stamped, int, *apiError) {
	if in.NextToken == nil {
		if value(in.StartFromHead) {
			return r.forward(r.from, limit), r.from, nil
		}
		out := r.backward(r.to, limit)
		return out, r.to - len(out), nil
	}
	dir, at, ok := strings.Cut(*in.NextToken, "/")
	n, err := strconv.Atoi(at)
	if !ok || err != nil || n < 0 || dir != "f" && dir != "b" {
		return nil, 0, invalidParameter("The specified nextToken is invalid.")
	}
	if dir == "b" {
		out := r.backward(min(n, r.to), limit)
		return out, min(n, r.to) - len(out), nil
	}
	// "If you are using a previous nextForwardToken ... you must specify true for
	// startFromHead".
	if !value(in.StartFromHead) {
		return nil, 0, invalidParameter("startFromHead must be true with a nextForwardToken.")
	}
	n = max(n, r.from)
	return r.forward(n, limit), n, nil
}

func limitOf(n *int32) (int, *apiError) {
	if n != nil && (*n < 1 || *n > maxLogEvents) {
		return 0, invalidParameter("limit must be between 1 and %d.", maxLogEvents)
	}
	return int(or(n, maxLogEvents)), nil
}

type filterEventsInput struct {
	LogGroupName        *string  `json:"logGroupName"`
	LogGroupIdentifier  *string  `json:"logGroupIdentifier"`
	LogStreamNames      []string `json:"logStreamNames"`
	LogStreamNamePrefix *string  `json:"logStreamNamePrefix"`
	FilterPattern       *string  `json:"filterPattern"`
	StartTime           *int64   `json:"startTime"`
	EndTime             *int64   `json:"endTime"`
	Limit               *int32   `json:"limit"`
	NextToken           *string  `json:"nextToken"`
	Interleaved         *bool    `json:"interleaved"`
	Unmask              bool     `json:"unmask"`
}

// filtered is an event of FilterLogEvents.
type filtered struct {
	ID        string `json:"eventId"`
	Stream    string `json:"logStreamName"`
	Timestamp int64  `json:"timestamp"`
	Ingestion int64  `json:"ingestionTime"`
	Message   string `json:"message"`
}

// filterLogEvents is CloudWatch Logs API, FilterLogEvents: the streams' events
// interleaved by time. A pattern here is one term or one "quoted phrase". Its
// endTime takes part in what is returned, unlike that of GetLogEvents.
func (s *Server) filterLogEvents(c *request) (any, *apiError) {
	var in filterEventsInput
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	limit, e := limitOf(in.Limit)
	if e != nil {
		return nil, e
	}
	if len(in.LogStreamNames) > 0 && in.LogStreamNamePrefix != nil || len(in.LogStreamNames) > maxStreams {
		return nil, invalidParameter("Specify at most %d logStreamNames, or logStreamNamePrefix.", maxStreams)
	}
	g, e := s.group(in.LogGroupName, in.LogGroupIdentifier, c.action, "*")
	if e != nil {
		return nil, e
	}
	names := in.LogStreamNames
	if len(names) == 0 {
		names = g.names(value(in.LogStreamNamePrefix), c.now)
	}
	all, e := s.filter(g, &in, names, c)
	if e != nil {
		return nil, e
	}
	ids := make([]string, len(all))
	byID := make(map[string]filtered, len(all))
	for i, ev := range all {
		ids[i], byID[ev.ID] = ev.ID, ev
	}
	ids, next, ok := page(ids, in.NextToken, limit)
	if !ok {
		return nil, invalidParameter("The specified nextToken is invalid.")
	}
	events := []filtered{}
	for _, id := range ids {
		events = append(events, byID[id])
	}
	out := map[string]any{"events": events, "searchedLogStreams": []any{}}
	if next != "" {
		out["nextToken"] = next
	}
	return out, nil
}

// filter are the events of some streams that match, by time.
func (s *Server) filter(g *logGroup, in *filterEventsInput, names []string, c *request) ([]filtered, *apiError) {
	term := strings.Trim(value(in.FilterPattern), `"`)
	end := in.EndTime
	if end != nil {
		after := *end + 1
		end = &after
	}
	var all []filtered
	for _, name := range names {
		st, e := g.stream(name, c.now)
		if e != nil {
			return nil, e
		}
		r := s.read(g, st, in.StartTime, end, c.now)
		for i := r.from; i < r.to; i++ {
			if l := r.line(i); strings.Contains(l.text, term) {
				all = append(
					all, filtered{fmt.Sprintf("%020d%s", i, digest(name)[:16]), name, l.ms, l.ms + r.ingest.Milliseconds(), l.text},
				)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b filtered) int { return cmp.Compare(a.Timestamp, b.Timestamp) })
	return all, nil
}
