package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"time"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// description is what stands beside a volume to say whose it is and whether it is
// whole. It holds none of the contents.
type description struct {
	UID, Namespace, PodName string
	// Node is the identity of the pod's node.
	Node       string
	Name, Kind string
	// Hash is that of the contents, "" until they are whole.
	Hash string
	// Data is where ..data pointed when they were, and BootID when that was.
	Data, BootID string
	PlacedAt     time.Time
	Spec         volumeSpec
}

// volumeSpec is what else a volume was made from.
type volumeSpec struct {
	SizeLimit        int64
	PageSize, Source string
	ReadOnly         bool
	MountOptions     []string
	FSGroup          *int64
	OnRootMismatch   bool
	Nested           []string
}

func describe(v host.Volume) description {
	return description{
		UID: v.Pod.UID, Namespace: v.Namespace, PodName: v.PodName, Node: v.Pod.Node, Name: v.Name, Kind: v.Kind,
		Spec: volumeSpec{
			SizeLimit: v.SizeLimit, PageSize: v.PageSize, Source: v.Source, ReadOnly: v.ReadOnly,
			MountOptions: emptyAsNil(v.MountOptions), FSGroup: v.FSGroup, OnRootMismatch: v.OnRootMismatch,
			Nested: emptyAsNil(v.Nested),
		},
	}
}

// emptyAsNil makes lists equal whether they came as JSON or not.
func emptyAsNil(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return list
}

// same is true where what was described is made as other is.
func (d description) same(other description) bool {
	return d.Node == other.Node && d.UID == other.UID && d.Kind == other.Kind && reflect.DeepEqual(d.Spec, other.Spec)
}

// readDescription returns an empty one where there is none, or none that a fallen
// host had written to its end.
func readDescription(pod host.PodDir, name string) (description, error) {
	var d description
	data, err := os.ReadFile(pod.Described(name))
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return d, err
	}
	if whole := json.Unmarshal(data, &d) == nil; !whole || d.Name != name {
		return description{}, nil
	}
	return d, nil
}

func writeDescription(pod host.PodDir, d description) error {
	data, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("describe volume %s: %w", d.Name, err)
	}
	return replaceFile(pod.Described(d.Name), data, 0o600)
}

// replaceFile writes a file as a whole; until it is, it has another name.
func replaceFile(path string, data []byte, mode os.FileMode) error {
	dir, base := filepath.Split(path)
	other := filepath.Join(dir, "."+base+"."+strconv.FormatUint(rand.Uint64(), 36)+".tmp")
	err := writeNew(other, data, mode)
	if err == nil {
		err = os.Rename(other, path)
	}
	if err == nil {
		return nil
	}
	if gone := os.Remove(other); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

func writeNew(path string, data []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	// The umask took bits away.
	return errors.Join(err, f.Chmod(mode), f.Close())
}
