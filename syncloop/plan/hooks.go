package plan

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// HookKind is when a lifecycle hook runs.
type HookKind string

// The hooks, as the API spells them.
const (
	PostStart HookKind = "PostStart"
	PreStop   HookKind = "PreStop"
)

// HookKey names one hook of one container attempt, by the runtime's id.
type HookKey struct {
	Container, ID string
	Kind          HookKind
}

// HookState is how a hook ended. Done is true for one that failed, too.
type HookState struct {
	Done, Failed bool
	// Message says why it failed.
	Message string
}

// Hook is a lifecycle hook that should be running now.
type Hook struct {
	Key     HookKey
	Ref     backend.ContainerRef
	Handler *corev1.LifecycleHandler
	PodIP   string
	Spec    *corev1.Container
}

func hookKey(m podContainer, cur *ContainerAttempt, kind HookKind) HookKey {
	return HookKey{Container: m.Name, ID: cur.ID, Kind: kind}
}

// postStarts runs the postStart hooks of containers that run and have not had
// theirs.
func (v view) postStarts(p *Plan) {
	if v.Supervised {
		return
	}
	for _, list := range [][]podContainer{v.inits, v.apps} {
		for _, m := range list {
			cur := v.current(m.Name)
			if cur == nil || !v.inSandbox(cur) || cur.State() != backend.Running || v.postStarted(m, cur) {
				continue
			}
			if key := hookKey(m, cur, PostStart); !v.Memory.Hooks[key].Failed {
				p.Hooks = append(p.Hooks, Hook{
					Key: key, Ref: cur.Ref(), Handler: postStart(m.Container), PodIP: v.podIP(), Spec: m.Container,
				})
			}
		}
	}
}

// postStarted is true once the container's postStart hook, if any, succeeded.
func (v view) postStarted(m podContainer, cur *ContainerAttempt) bool {
	if postStart(m.Container) == nil {
		return true
	}
	state := v.Memory.Hooks[hookKey(m, cur, PostStart)]
	return state.Done && !state.Failed
}

// podIP is where hooks and probes go that name no host.
func (v view) podIP() string {
	switch at := v.addressesNow(); {
	case len(at.PodIPs) > 0:
		return at.PodIPs[0]
	case v.newest != nil && len(v.newest.IPs) > 0:
		return v.newest.IPs[0]
	}
	return ""
}
