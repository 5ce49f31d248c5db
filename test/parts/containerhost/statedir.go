package containerhost

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/test/parts/remotehost/namespaces"
)

// kind tells the state directories of these hosts.
func kind() namespaces.Kind {
	return namespaces.Kind{Prefix: "blhost-", Marker: "containerhost", Reclaim: removeCgroups}
}

// shareMounts makes what is mounted below dir from now on visible to mount
// namespaces that are made from now on.
func shareMounts(dir string) error {
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind state directory: %w", err)
	}
	if err := unix.Mount("", dir, "", unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share state directory: %w", err)
	}
	return nil
}

// removeCgroups removes the cgroups of containers that the runtime was not
// alive to remove, in every hierarchy, found by the containers' ids.
func removeCgroups(dir string) error {
	ids := map[string]bool{}
	for _, kind := range []string{"sandboxes", "containers"} {
		// The CRI plugin keeps a directory for each until it is removed.
		dirs, err := filepath.Glob(filepath.Join(layout{dir: dir}.root(), "io.containerd.grpc.v1.cri", kind, "*"))
		if err != nil {
			return fmt.Errorf("list %s: %w", kind, err)
		}
		for _, dir := range dirs {
			ids[filepath.Base(dir)] = true
		}
	}
	return namespaces.RemoveCgroups(ids)
}
