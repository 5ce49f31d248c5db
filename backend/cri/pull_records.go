package cri

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// maxPullRecords bounds the file of records; an image takes some 300 bytes.
const maxPullRecords = 8 << 20

// pullRecords implements [backend.PullRecords]: a file of the node's own beside the pods'
// directories, which only root reads.
type pullRecords struct{ *remote }

func (r *remote) pullRecordsFile() string {
	sum := sha256.Sum256([]byte(r.cfg.NodeIdentity))
	return path.Join(r.cfg.PodsDir, ".image-pulls-"+hex.EncodeToString(sum[:8])+".json")
}

// Load reads the file.
func (p pullRecords) Load(ctx context.Context) ([]byte, error) {
	data, err := p.host.ReadFile(ctx, p.pullRecordsFile(), maxPullRecords)
	if isNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", p.pullRecordsFile(), err)
	}
	if len(data) == 0 { // a host that lost power may keep the name of a file and not its contents
		return nil, backend.Errorf(backend.ErrInvalid, "read %s: the file is empty", p.pullRecordsFile())
	}
	return data, nil
}

// Save replaces the file.
func (p pullRecords) Save(ctx context.Context, data []byte) error {
	file := p.pullRecordsFile()
	if len(data) > maxPullRecords {
		return backend.Errorf(
			backend.ErrUnsupported, "write %s: %d bytes, at most %d are possible: remove images from the host", file, len(data),
			maxPullRecords,
		)
	}
	if _, err := p.host.Prepare(
		ctx, host.Preparation{Writes: []host.Write{{Path: file, Data: data, Mode: 0o600}}},
	); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
