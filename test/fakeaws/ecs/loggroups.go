package ecs

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

func (s *Server) createLogGroup(c *request) (any, *apiError) {
	var in struct {
		LogGroupName  *string           `json:"logGroupName"`
		KmsKeyID      *string           `json:"kmsKeyId"`
		LogGroupClass *string           `json:"logGroupClass"`
		Tags          map[string]string `json:"tags"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	name := value(in.LogGroupName)
	if e := s.authorize("logs:CreateLogGroup", s.logARN(name)); e != nil {
		return nil, e
	}
	if e := s.authorizeTags("logs", s.logARN(name), len(in.Tags)); e != nil {
		return nil, e
	}
	// CloudWatch Logs API, CreateLogGroup: names.
	if len(name) > maxLogGroup || !groupPattern.MatchString(name) || strings.HasPrefix(name, "aws/") {
		return nil, invalidParameter("Invalid logGroupName %q.", name)
	}
	if s.groups[name] != nil {
		return nil, failf("ResourceAlreadyExistsException", "The specified log group already exists")
	}
	s.groups[name] = newLogGroup(name, c.now)
	s.settle(c.now)
	return map[string]any{}, nil
}

func (s *Server) deleteLogGroup(c *request) (any, *apiError) {
	g, e := s.groupOnly(c)
	if e != nil {
		return nil, e
	}
	delete(s.groups, g.name)
	s.settle(c.now)
	return map[string]any{}, nil
}

// groupOnly finds the group of a request that names nothing else.
func (s *Server) groupOnly(c *request) (*logGroup, *apiError) {
	var in struct {
		LogGroupName *string `json:"logGroupName"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	return s.group(in.LogGroupName, nil, c.action, "*")
}

func (s *Server) putRetentionPolicy(c *request) (any, *apiError) {
	var in struct {
		LogGroupName *string `json:"logGroupName"`
		Days         *int32  `json:"retentionInDays"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	g, e := s.group(in.LogGroupName, nil, c.action, "*")
	if e != nil {
		return nil, e
	}
	if !slices.Contains(retentions, value(in.Days)) {
		return nil, invalidParameter("Invalid retentionInDays %d.", value(in.Days))
	}
	g.retention = *in.Days
	return map[string]any{}, nil
}

func (s *Server) describeLogGroups(c *request) (any, *apiError) {
	var in struct {
		Prefix    *string `json:"logGroupNamePrefix"`
		Limit     *int32  `json:"limit"`
		NextToken *string `json:"nextToken"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	if e := s.authorize("logs:DescribeLogGroups", s.logARN("")+":*"); e != nil {
		return nil, e
	}
	limit, e := pageSize(in.Limit, maxLogNames, maxLogNames)
	if e != nil {
		return nil, e
	}
	var names []string
	for _, n := range slices.Sorted(maps.Keys(s.groups)) {
		if strings.HasPrefix(n, value(in.Prefix)) {
			names = append(names, n)
		}
	}
	names, next, ok := page(names, in.NextToken, limit)
	if !ok {
		return nil, invalidParameter("The specified nextToken is invalid.")
	}
	groups := []any{}
	for _, n := range names {
		g := map[string]any{
			"logGroupName": n, "arn": s.logARN(n) + ":*", "logGroupArn": s.logARN(n),
			"creationTime": s.groups[n].created.UnixMilli(), "storedBytes": 0, "metricFilterCount": 0,
			"logGroupClass": "STANDARD",
		}
		if d := s.groups[n].retention; d > 0 {
			g["retentionInDays"] = d
		}
		groups = append(groups, g)
	}
	return withToken("logGroups", groups, next), nil
}

func withToken(member string, items []any, next string) map[string]any {
	out := map[string]any{member: items}
	if next != "" {
		out["nextToken"] = next
	}
	return out
}

// describeLogStreams is CloudWatch Logs API, DescribeLogStreams.
func (s *Server) describeLogStreams(c *request) (any, *apiError) {
	var in struct {
		LogGroupName       *string `json:"logGroupName"`
		LogGroupIdentifier *string `json:"logGroupIdentifier"`
		Prefix             *string `json:"logStreamNamePrefix"`
		OrderBy            *string `json:"orderBy"`
		Descending         *bool   `json:"descending"`
		Limit              *int32  `json:"limit"`
		NextToken          *string `json:"nextToken"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	limit, e := pageSize(in.Limit, maxLogNames, maxLogNames)
	if e != nil {
		return nil, e
	}
	order := or(in.OrderBy, "LogStreamName")
	if order != "LogStreamName" && order != "LastEventTime" || order == "LastEventTime" && in.Prefix != nil {
		return nil, invalidParameter("Cannot order by %s with a logStreamNamePrefix, or at all.", order)
	}
	g, e := s.group(in.LogGroupName, in.LogGroupIdentifier, c.action, "log-stream:*")
	if e != nil {
		return nil, e
	}
	views := map[string]map[string]any{}
	names := g.names(value(in.Prefix), c.now)
	for _, n := range names {
		views[n] = s.streamView(g, g.streams[n], c)
	}
	if order == "LastEventTime" {
		last := func(n string) int64 { ms, _ := views[n]["lastEventTimestamp"].(int64); return ms }
		slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(last(a), last(b)) })
	}
	if value(in.Descending) {
		slices.Reverse(names)
	}
	names, next, ok := page(names, in.NextToken, limit)
	if !ok {
		return nil, invalidParameter("The specified nextToken is invalid.")
	}
	streams := []any{}
	for _, n := range names {
		streams = append(streams, views[n])
	}
	return withToken("logStreams", streams, next), nil
}

// streamView is CloudWatch Logs API, LogStream. One without events has no times
// but that of its creation.
func (s *Server) streamView(g *logGroup, st *logStream, c *request) map[string]any {
	at, _ := st.starts(c.now)
	v := map[string]any{
		"logStreamName": st.name, "arn": s.logARN(g.name) + ":log-stream:" + st.name, "creationTime": at.UnixMilli(),
		"storedBytes": 0,
	}
	if r := s.read(g, st, nil, nil, c.now); r.to > r.from {
		first, last := r.line(r.from).ms, r.line(r.to-1).ms
		v["firstEventTimestamp"], v["lastEventTimestamp"], v["lastIngestionTime"] = first, last, last+r.ingest.Milliseconds()
	}
	return v
}

func (s *Server) deleteLogStream(c *request) (any, *apiError) {
	var in struct {
		LogGroupName  *string `json:"logGroupName"`
		LogStreamName *string `json:"logStreamName"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	g, e := s.group(in.LogGroupName, nil, c.action, "log-stream:"+value(in.LogStreamName))
	if e != nil {
		return nil, e
	}
	if _, e := g.stream(value(in.LogStreamName), c.now); e != nil {
		return nil, e
	}
	delete(g.streams, *in.LogStreamName)
	return map[string]any{}, nil
}
