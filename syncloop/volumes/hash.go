package volumes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/burstlet/burstlet/backend"
)

// hash identifies source, read-only and files of a volume. It is the same in
// every process, so that what was placed before a restart is recognised.
func hash(spec backend.VolumeSpec) string {
	h := sha256.New()
	// Neither a source nor a file holds what cannot be marshalled, and a hash
	// never fails to write.
	if err := json.NewEncoder(h).Encode(struct {
		Source   any
		ReadOnly bool
		Files    []backend.File
		Options  []string `json:",omitempty"`
		Handle   string   `json:",omitempty"`
	}{spec.Source, spec.ReadOnly, spec.Files, spec.MountOptions, spec.Handle}); err != nil {
		panic(fmt.Sprintf("marshal volume %s: %v", spec.Name, err))
	}
	return hex.EncodeToString(h.Sum(nil))
}
