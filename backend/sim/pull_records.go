package sim

import (
	"context"
	"slices"
)

// pullRecordsView lends backend.PullRecords.
type pullRecordsView struct{ *view }

// Load returns what the node saved last.
func (v pullRecordsView) Load(ctx context.Context) ([]byte, error) {
	const op = "load records of image pulls"
	if err := v.request(ctx, op); err != nil {
		return nil, err
	}
	v.mu.Lock()
	data := slices.Clone(v.pullRecords[v.node])
	v.mu.Unlock()
	return data, v.reply(ctx, op)
}

// Save keeps what the node knows.
func (v pullRecordsView) Save(ctx context.Context, data []byte) error {
	const op = "save records of image pulls"
	if err := v.request(ctx, op); err != nil {
		return err
	}
	v.mu.Lock()
	if v.Remote.pullRecords == nil {
		v.Remote.pullRecords = map[string][]byte{}
	}
	v.Remote.pullRecords[v.node] = slices.Clone(data)
	v.mu.Unlock()
	return v.reply(ctx, op)
}
