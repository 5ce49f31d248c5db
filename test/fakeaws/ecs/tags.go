package ecs

import (
	"slices"
	"strings"
)

func isArn(s string) bool { return strings.HasPrefix(s, "arn:") }

// checkTags is ECS API, Tag: restrictions.
func checkTags(tags []tag) *apiError {
	if len(tags) > maxTags {
		return invalidParameter("Number of tags cannot exceed %d.", maxTags)
	}
	seen := map[string]bool{}
	for _, t := range tags {
		k, v := value(t.Key), value(t.Value)
		if k == "" || len([]rune(k)) > maxTagKey || len([]rune(v)) > maxTagValue ||
			strings.HasPrefix(strings.ToLower(k), "aws:") ||
			!tagPattern.MatchString(k) || !tagPattern.MatchString(v) || seen[k] {
			return invalidParameter("Invalid tag %q.", k)
		}
		seen[k] = true
	}
	return nil
}

// tagsOf finds the tags of a resource by its ARN (ECS API, TagResource: tasks and
// task definitions; this server's cluster has none).
func (s *Server) tagsOf(arn string, c *request) (*[]tag, *apiError) {
	if !isArn(arn) {
		return nil, invalidParameter("Invalid resource ARN: %q.", arn)
	}
	if t := s.tasks[arn]; t != nil {
		if c.now.Sub(t.created) >= t.life.stopping {
			return nil, invalidParameter("The specified task is stopped. Specify a running task and try again.")
		}
		return &t.tags, nil
	}
	if d := s.findDefinition(arn); d != nil && hasRevision(arn) {
		return &d.Tags, nil
	}
	return nil, failf("ResourceNotFoundException", "The specified resource was not found: %s", arn)
}

func (s *Server) tagResource(c *request) (any, *apiError) {
	var in struct {
		ResourceArn *string `json:"resourceArn"`
		Tags        []tag   `json:"tags"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	if e := s.authorize("ecs:TagResource", value(in.ResourceArn)); e != nil {
		return nil, e
	}
	tags, e := s.tagsOf(value(in.ResourceArn), c)
	if e != nil {
		return nil, e
	}
	if e := checkTags(in.Tags); e != nil {
		return nil, e
	}
	merged := mergeTags(*tags, in.Tags)
	if e := checkTags(merged); e != nil {
		return nil, e
	}
	*tags = merged
	return map[string]any{}, nil
}

func (s *Server) untagResource(c *request) (any, *apiError) {
	var in struct {
		ResourceArn *string  `json:"resourceArn"`
		TagKeys     []string `json:"tagKeys"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	if e := s.authorize("ecs:UntagResource", value(in.ResourceArn)); e != nil {
		return nil, e
	}
	tags, e := s.tagsOf(value(in.ResourceArn), c)
	if e != nil {
		return nil, e
	}
	*tags = withoutTags(*tags, in.TagKeys)
	return map[string]any{}, nil
}

func withoutTags(tags []tag, keys []string) []tag {
	return slices.DeleteFunc(slices.Clone(tags), func(t tag) bool { return slices.Contains(keys, value(t.Key)) })
}

func (s *Server) listTags(c *request) (any, *apiError) {
	var in struct {
		ResourceArn *string `json:"resourceArn"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	if e := s.authorize("ecs:ListTagsForResource", value(in.ResourceArn)); e != nil {
		return nil, e
	}
	tags, e := s.tagsOf(value(in.ResourceArn), c)
	if e != nil {
		return nil, e
	}
	return map[string]any{"tags": nonNil(*tags)}, nil
}
