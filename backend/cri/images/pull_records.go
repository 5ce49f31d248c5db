package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// maxPullRecords bounds the file of records; an image takes some 300 bytes.
const maxPullRecords = 8 << 20

// Records implements [backend.PullRecords]: a file of the node's own beside the pods'
// directories, which only root reads.
type Records struct {
	host host.Host
	// file is the node's.
	file string
}

// NewRecords has those of a node, in the directory that it has on its host.
func NewRecords(h host.Host, root, node string) Records {
	sum := sha256.Sum256([]byte(node))
	return Records{host: h, file: path.Join(root, ".image-pulls-"+hex.EncodeToString(sum[:8])+".json")}
}

// Path is where the records are on the host.
func (p Records) Path() string { return p.file }

// Load reads the file.
func (p Records) Load(ctx context.Context) ([]byte, error) {
	data, err := p.host.ReadFile(ctx, p.file, maxPullRecords)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", p.file, err)
	}
	if len(data) == 0 { // a host that lost power may keep the name of a file and not its contents
		return nil, backend.Errorf(backend.ErrInvalid, "read %s: the file is empty", p.file)
	}
	return data, nil
}

// Save replaces the file.
func (p Records) Save(ctx context.Context, data []byte) error {
	if len(data) > maxPullRecords {
		return backend.Errorf(
			backend.ErrUnsupported, "write %s: %d bytes, at most %d are possible: remove images from the host",
			p.file, len(data), maxPullRecords,
		)
	}
	if _, err := p.host.Prepare(
		ctx, host.Preparation{Writes: []host.Write{{Path: p.file, Data: data, Mode: 0o600}}},
	); err != nil {
		return fmt.Errorf("write %s: %w", p.file, err)
	}
	return nil
}
