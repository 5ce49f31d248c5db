package ecs

import (
	"slices"
	"strings"
	"time"
)

// Limits of ListSecrets (Secrets Manager API, ListSecrets and Filter).
const (
	maxFilters      = 10
	maxFilterValues = 10
	maxFilterText   = 512
)

func (s *Server) describeSecret(c *request) (any, *apiError) {
	var in struct {
		SecretID *string `json:"SecretId"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	sec, e := s.reach(in.SecretID, c.action, true, c.now)
	if e != nil {
		return nil, e
	}
	out := sec.entry(c.now)
	stages := map[string][]string{}
	for id, v := range sec.versions {
		stages[id] = nonNil(v.stages)
	}
	delete(out, "SecretVersionsToStages")
	out["VersionIdsToStages"] = stages
	return out, nil
}

// entry is a secret as it is shown (Secrets Manager API, SecretListEntry), by whether it
// was deleted at a time.
func (sec *secret) entry(seen time.Time) map[string]any {
	stages := map[string][]string{}
	for id, v := range sec.versions {
		if len(v.stages) > 0 {
			stages[id] = v.stages
		}
	}
	out := map[string]any{
		"ARN": sec.arn, "Name": sec.name, "CreatedDate": epoch(sec.created), "LastChangedDate": epoch(sec.changed),
		"Tags": secretTags(sec.tags), "SecretVersionsToStages": stages,
	}
	if sec.description != "" {
		out["Description"] = sec.description
	}
	if !sec.deleted.IsZero() && !seen.Before(sec.deleted) {
		out["DeletedDate"] = epoch(sec.deleted)
	}
	return out
}

type secretFilter struct {
	Key    *string  `json:"Key"`
	Values []string `json:"Values"`
}

func (s *Server) listSecrets(c *request) (any, *apiError) {
	var in struct {
		Filters    []secretFilter `json:"Filters"`
		Planned    *bool          `json:"IncludePlannedDeletion"`
		MaxResults *int32         `json:"MaxResults"`
		NextToken  *string        `json:"NextToken"`
		SortOrder  *string        `json:"SortOrder"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	// Service Authorization Reference: it has no resources.
	if e := s.authorize("secretsmanager:ListSecrets", "*"); e != nil {
		return nil, e
	}
	limit, e := pageSize(in.MaxResults, maxResults, maxResults)
	if e != nil {
		return nil, e
	}
	if e := checkFilters(in.Filters); e != nil {
		return nil, e
	}
	byARN := map[string]*secret{}
	var arns []string
	for _, sec := range s.listedSecrets(c.now, value(in.Planned)) {
		if !slices.ContainsFunc(in.Filters, func(f secretFilter) bool { return !f.matches(sec, s.cfg.Region) }) {
			byARN[sec.arn] = sec
			arns = append(arns, sec.arn)
		}
	}
	switch or(in.SortOrder, "asc") {
	case "asc":
	case "desc":
		slices.Reverse(arns)
	default:
		return nil, invalidParameter("Invalid SortOrder.")
	}
	arns, next, ok := page(arns, in.NextToken, limit)
	if !ok {
		return nil, failf("InvalidNextTokenException", "The NextToken value is invalid.")
	}
	list := []any{}
	for _, arn := range arns {
		list = append(list, byARN[arn].entry(c.now.Add(-s.cfg.Delays.Listed)))
	}
	out := map[string]any{"SecretList": list}
	if next != "" {
		out["NextToken"] = next
	}
	return out, nil
}

var filterKeys = []string{"description", "name", "tag-key", "tag-value", "primary-region", "owning-service", "all"}

func checkFilters(fs []secretFilter) *apiError {
	if len(fs) > maxFilters {
		return invalidParameter("At most %d filters.", maxFilters)
	}
	for _, f := range fs {
		if !slices.Contains(filterKeys, value(f.Key)) || len(f.Values) < 1 || len(f.Values) > maxFilterValues {
			return invalidParameter("Invalid filter %q, or not 1 to %d values.", value(f.Key), maxFilterValues)
		}
		if slices.ContainsFunc(f.Values, func(v string) bool { return v == "" || len(v) > maxFilterText }) {
			return invalidParameter("Invalid filter value.")
		}
	}
	return nil
}

// matches is Secrets Manager API, Filter: prefixes, ! for not; one of the values
// matches, and every filter does.
func (f secretFilter) matches(sec *secret, region string) bool {
	var texts []string
	fold := false
	switch *f.Key {
	case "name":
		texts = []string{sec.name}
	case "description":
		texts, fold = []string{sec.description}, true
	case "tag-key":
		for _, t := range sec.tags {
			texts = append(texts, value(t.Key))
		}
	case "tag-value":
		for _, t := range sec.tags {
			texts = append(texts, value(t.Value))
		}
	case "primary-region":
		texts = []string{region}
	case "all":
		texts, fold = []string{sec.name, sec.description}, true
		for _, t := range sec.tags {
			texts = append(texts, value(t.Key), value(t.Value))
		}
	}
	return slices.ContainsFunc(f.Values, func(v string) bool {
		v, not := strings.CutPrefix(v, "!")
		has := slices.ContainsFunc(texts, func(text string) bool {
			if fold {
				text, v = strings.ToLower(text), strings.ToLower(v)
			}
			return strings.HasPrefix(text, v)
		})
		return has != not
	})
}

func (s *Server) tagSecret(c *request) (any, *apiError) {
	var in struct {
		SecretID *string     `json:"SecretId"`
		Tags     []secretTag `json:"Tags"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	sec, e := s.reach(in.SecretID, c.action, false, c.now)
	if e != nil {
		return nil, e
	}
	merged := mergeTags(sec.tags, plainTags(in.Tags))
	if e := checkTags(merged); e != nil {
		return nil, e
	}
	sec.tags = merged
	return map[string]any{}, nil
}

func (s *Server) untagSecret(c *request) (any, *apiError) {
	var in struct {
		SecretID *string  `json:"SecretId"`
		TagKeys  []string `json:"TagKeys"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	sec, e := s.reach(in.SecretID, c.action, false, c.now)
	if e != nil {
		return nil, e
	}
	sec.tags = withoutTags(sec.tags, in.TagKeys)
	return map[string]any{}, nil
}

func plainTags(tags []secretTag) []tag {
	var out []tag
	for _, t := range tags {
		out = append(out, tag(t))
	}
	return out
}
