package intask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// SubsystemStats is the name under which a server tells the task's statistics.
const SubsystemStats = "stats"

// TaskStats are what the metadata endpoint of the task says.
type TaskStats struct {
	// Task is the answer of /task, Stats that of /task/stats (ECS developer guide,
	// "Task metadata endpoint version 4").
	Task  json.RawMessage `json:"task"`
	Stats json.RawMessage `json:"stats"`
}

// Stats reads the task's statistics, a TaskStats.
func (t Task) Stats(ctx context.Context) (json.RawMessage, error) {
	url := t.Env(envMetadata)
	if url == "" {
		return nil, errors.New("there is no " + envMetadata + ": this is no ECS task")
	}
	var s TaskStats
	if err := t.getJSON(ctx, url+"/task", &s.Task); err != nil {
		return nil, fmt.Errorf("read the task's metadata: %w", err)
	}
	if err := t.getJSON(ctx, url+"/task/stats", &s.Stats); err != nil {
		return nil, fmt.Errorf("read the task's statistics: %w", err)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode the task's statistics: %w", err)
	}
	return text, nil
}
