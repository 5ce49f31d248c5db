package provider

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// errWentBack says that the API server has an earlier state than before.
var errWentBack = errors.New("the API server went back to an earlier state, as when a backup is restored")

// older is true where an object's version comes before another that was seen when the object
// was asked for: the API server numbers all changes of all objects, so that an object's version
// only grows, also when it is deleted and made again. Where it does not, etcd was restored. No
// watch tells of that: one that goes on from a version that is not there yet is silent until
// the numbers are reached again, and what was changed before then is never told.
func older(version, seen string) bool {
	order, err := resourceversion.CompareResourceVersion(version, seen)
	return err == nil && order < 0 // an error: no version was seen, or it is none of etcd's
}

// wentBack ends the node, since its watches cannot go on. Its pods stay; the next term, or
// process, lists what the API server has now.
func (n *Node) wentBack() {
	n.leave(fmt.Errorf("%w: the lease of node %s has an older version than before, and watches do not tell what was "+
		"restored: if burstlet ends, start it again", errWentBack, n.cfg.NodeName))
}

// leave ends the node with an error, unless it ends for another already.
func (n *Node) leave(err error) {
	select {
	case n.leaves <- err:
	default:
	}
}

// untilLeft returns an error when the node has to end, nil with the context.
func (n *Node) untilLeft(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-n.leaves:
		return err
	}
}
