package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// hugePages is how many bytes are set aside for each size. It is nil where cgroups do not
// limit their use: nothing would keep a pod to its share. Containers stand in the unified
// tree only where there is no other.
func (h *Host) hugePages(hs hierarchies) (map[int64]int64, error) {
	if hi, ok := hs.with(controllerHugeTLB); !ok || hi.unified && !hs.pure() {
		return nil, nil
	}
	root := filepath.Join(h.opts.SysRoot, "kernel/mm/hugepages")
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out map[int64]int64
	for _, e := range entries {
		size, _ := strings.CutPrefix(e.Name(), "hugepages-")
		size, isSize := strings.CutSuffix(size, "kB")
		kilobytes, err := strconv.ParseInt(size, 10, 64)
		if !isSize || err != nil {
			continue
		}
		text, err := line(filepath.Join(root, e.Name(), "nr_hugepages"))
		if err != nil {
			return nil, err
		}
		pages, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = map[int64]int64{}
		}
		out[kilobytes<<10] = pages * kilobytes << 10
	}
	return out, nil
}
