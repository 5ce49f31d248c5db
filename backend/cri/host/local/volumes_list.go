package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// Volumes implements [host.Host]. What is mounted is asked once, and nothing that is
// mounted is touched: its server may be gone.
func (h *Host) Volumes(ctx context.Context, root, node string) ([]host.Placed, error) {
	root, err := filepath.EvalSymlinks(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	table, err := h.mounts()
	if err != nil {
		return nil, err
	}
	boot := h.bootID()
	var placed []host.Placed
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		of, err := placedOf(host.PodDir{Root: root, Node: node, UID: e.Name()}, table, boot)
		if err != nil {
			return nil, err
		}
		placed = append(placed, of...)
	}
	return placed, nil
}

// nodes are those whose pods have directories here; none where only root may look.
func (h *Host) nodes() ([]string, error) {
	entries, err := readDir(h.opts.Root)
	if errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var nodes []string
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		owner, err := podOwner(host.PodDir{Root: h.opts.Root, UID: e.Name()})
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return nil, err
		}
		if owner != "" && !slices.Contains(nodes, owner) {
			nodes = append(nodes, owner)
		}
	}
	slices.Sort(nodes)
	return nodes, nil
}

// placedOf are those of one pod; none of another node's, or of one that goes.
func placedOf(pod host.PodDir, table mountTable, boot string) ([]host.Placed, error) {
	owner, err := podOwner(pod)
	if err != nil || owner != pod.Node {
		return nil, err
	}
	names, err := describedNames(pod)
	if err != nil {
		return nil, err
	}
	var placed []host.Placed
	for _, name := range names {
		d, err := readDescription(pod, name)
		if err != nil {
			return nil, err
		}
		p := host.Placed{UID: pod.UID, Namespace: d.Namespace, PodName: d.PodName, Name: name, PlacedAt: d.PlacedAt}
		if d.Hash != "" && whole(pod, d, table, boot) {
			p.Hash = d.Hash
		}
		placed = append(placed, p)
	}
	if len(placed) == 0 {
		// The directory is there, with files or links to what a crash left.
		placed = append(placed, host.Placed{UID: pod.UID})
	}
	return placed, nil
}

// describedNames are the volumes of a pod that are described.
func describedNames(pod host.PodDir) ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(pod.Described("any")))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && name != "" {
			names = append(names, name)
		}
	}
	return names, nil
}
