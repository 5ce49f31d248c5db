package plan

import "github.com/burstlet/burstlet/backend"

// Stages are a plan's actions in the order in which they run; those of one stage run
// beside each other.
//
//	volumes that the remote mounts or checks   all at once, before what follows
//	volumes that are written                   all at once
//	a sandbox                                  beside the written ones: it needs none
//	a pod that is launched whole               after all volumes: its containers start
//	all else                                   one after another
func Stages(actions []Action) [][]Action {
	var mounted, written []Action
	for len(actions) > 0 {
		place, is := actions[0].(PlaceVolume)
		if !is {
			break
		}
		if isWritten(&place.Spec) {
			written = append(written, place)
		} else {
			mounted = append(mounted, place)
		}
		actions = actions[1:]
	}
	var all [][]Action
	if len(mounted) > 0 {
		all = append(all, mounted)
	}
	if len(actions) > 0 && isSandbox(actions[0]) {
		written, actions = append(written, actions[0]), actions[1:]
	}
	if len(written) > 0 {
		all = append(all, written)
	}
	for _, a := range actions {
		all = append(all, []Action{a})
	}
	return all
}

// isWritten is true of volumes that come out of our own hands: to place them takes a
// moment, and fails only as the sandbox would. The others may hang, or be refused by
// the host every time, and a pod without its volumes gets no sandbox (kubelet:
// WaitForAttachAndMount).
func isWritten(v *backend.VolumeSpec) bool {
	s := &v.Source
	return s.ConfigMap != nil || s.Secret != nil || s.Projected != nil || s.DownwardAPI != nil || s.EmptyDir != nil
}

// isSandbox is true of a launch that starts no container.
func isSandbox(a Action) bool {
	launch, is := a.(Launch)
	return is && len(launch.Spec.Containers) == 0
}
