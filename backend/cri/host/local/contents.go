package local

import (
	"context"
	"errors"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// WriteContents makes files the contents of a directory that is there, as those of
// a volume: one rename swaps them in, for whoever looks. A group, where there is
// one, may read all of it, before that (kubelet: fsGroup). It is for those who have
// volumes but no directory of a pod.
func WriteContents(ctx context.Context, dir string, files []host.File, group *int64) error {
	w, err := openContents(dir)
	if err != nil {
		return err
	}
	_, err = w.write(files, func() error {
		if group == nil {
			return nil
		}
		return setOwnership(ctx, dir, ownership{group: int(*group), readOnly: true})
	})
	return errors.Join(err, w.root.Close())
}
