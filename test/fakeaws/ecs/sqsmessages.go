package ecs

import (
	"slices"
	"time"
)

func (s *Server) deleteMessage(c *request) (any, *apiError) {
	var in struct {
		QueueURL *string `json:"QueueUrl"`
		Handle   *string `json:"ReceiptHandle"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	q, e := s.queue(in.QueueURL, c.action)
	if e != nil {
		return nil, e
	}
	return map[string]any{}, q.remove(value(in.Handle))
}

// remove is SQS API, DeleteMessage: a message that is gone already is no error.
func (q *queue) remove(handle string) *apiError {
	i, e := q.find(handle)
	if i >= 0 {
		q.messages = slices.Delete(q.messages, i, i+1)
	}
	return e
}

func (s *Server) changeVisibility(c *request) (any, *apiError) {
	var in struct {
		QueueURL   *string `json:"QueueUrl"`
		Handle     *string `json:"ReceiptHandle"`
		Visibility *int32  `json:"VisibilityTimeout"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	q, e := s.queue(in.QueueURL, c.action)
	if e != nil {
		return nil, e
	}
	if e := q.hide(value(in.Handle), in.Visibility, c.now); e != nil {
		return nil, e
	}
	s.wake()
	return map[string]any{}, nil
}

// hide is SQS API, ChangeMessageVisibility.
func (q *queue) hide(handle string, timeout *int32, now time.Time) *apiError {
	if timeout == nil || *timeout < 0 || *timeout > maxVisibility {
		return failf("InvalidParameterValue", "Value for parameter VisibilityTimeout is invalid.")
	}
	i, e := q.find(handle)
	if e != nil {
		return e
	}
	if i < 0 || !q.messages[i].visible.After(now) {
		return failf("MessageNotInflight", "The specified message isn't in flight.")
	}
	q.messages[i].visible = now.Add(time.Duration(*timeout) * time.Second)
	return nil
}

// batchInput is SQS API, DeleteMessageBatch and ChangeMessageVisibilityBatch.
type batchInput struct {
	QueueURL *string      `json:"QueueUrl"`
	Entries  []batchEntry `json:"Entries"`
}

type batchEntry struct {
	ID         *string `json:"Id"`
	Handle     *string `json:"ReceiptHandle"`
	Visibility *int32  `json:"VisibilityTimeout"`
}

func (s *Server) deleteMessageBatch(c *request) (any, *apiError) {
	return s.batch(c, "DeleteMessage", func(q *queue, en batchEntry) *apiError { return q.remove(value(en.Handle)) })
}

func (s *Server) changeVisibilityBatch(c *request) (any, *apiError) {
	defer s.wake()
	return s.batch(c, "ChangeMessageVisibility", func(q *queue, en batchEntry) *apiError {
		return q.hide(value(en.Handle), en.Visibility, c.now)
	})
}

// batch does something for 1 to 10 entries with ids of their own; an entry may
// fail alone. The right is that of the single action.
func (s *Server) batch(c *request, action string, do func(*queue, batchEntry) *apiError) (any, *apiError) {
	var in batchInput
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	q, e := s.queue(in.QueueURL, action)
	if e != nil {
		return nil, e
	}
	switch n := len(in.Entries); {
	case n == 0:
		return nil, failf("EmptyBatchRequest", "There should be at least one entry in the request.")
	case n > maxReceive:
		return nil, failf(
			"TooManyEntriesInBatchRequest", "Maximum number of entries per request are %d. You have sent %d.", maxReceive, n,
		)
	}
	ids := map[string]bool{}
	for _, en := range in.Entries {
		// SQS API, DeleteMessageBatchRequestEntry: Id.
		if !namePattern.MatchString(value(en.ID)) || len(*en.ID) > maxBatchID {
			return nil, failf(
				"InvalidBatchEntryId",
				"A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most %d "+
					"letters long.",
				maxBatchID,
			)
		}
		if ids[value(en.ID)] {
			return nil, failf("BatchEntryIdsNotDistinct", "Two or more batch entries in the request have the same Id.")
		}
		ids[value(en.ID)] = true
	}
	good, bad := []any{}, []any{}
	for _, en := range in.Entries {
		if e := do(q, en); e != nil {
			bad = append(bad, map[string]any{"Id": value(en.ID), "Code": e.Code, "Message": e.Message, "SenderFault": true})
			continue
		}
		good = append(good, map[string]any{"Id": value(en.ID)})
	}
	return map[string]any{"Successful": good, "Failed": bad}, nil
}
