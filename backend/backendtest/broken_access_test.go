package backendtest_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fault"
)

// brokenAccess break the rules of Files, Exec and Dial, and those that the
// contract grew with them.
var brokenAccess = map[string]brokenBackend{
	"volumes lose their hash": {"files/Volumes_lists_what_is_placed", false, func(b backend.Backend) backend.Backend {
		b.Files = editedVolumes{b.Files, func(f *backend.VolumeFacts) { f.Hash = "" }}
		return b
	}},
	"volumes tell the time of the remote": {
		"files/Volumes_lists_what_is_placed",
		false,
		func(b backend.Backend) backend.Backend {
			b.Files = editedVolumes{b.Files, func(f *backend.VolumeFacts) { f.PlacedAt = f.PlacedAt.Add(time.Minute) }}
			return b
		},
	},
	"every placement swaps": {"files/placing_twice_changes_nothing", false, func(b backend.Backend) backend.Backend {
		b.Files = placeVia{b.Files, func(ctx context.Context, f backend.Files, spec backend.VolumeSpec) error {
			other := spec
			other.Hash += "'"
			if err := f.Place(ctx, other); err != nil {
				return err
			}
			return f.Place(ctx, spec)
		}}
		return b
	}},
	"a placement is there already": {"files/lost_reply_then_replay", false, func(b backend.Backend) backend.Backend {
		b.Files = placeVia{b.Files, func(ctx context.Context, f backend.Files, spec backend.VolumeSpec) error {
			facts, err := f.Volumes(ctx)
			for _, v := range facts {
				if v.Pod.UID == spec.Pod.UID {
					return backend.Errorf(backend.ErrExists, "file exists")
				}
			}
			if err != nil {
				return err
			}
			return f.Place(ctx, spec)
		}}
		return b
	}},
	"volumes are kept in memory": {
		"files/survive_a_restart_of_the_engine",
		false,
		func(b backend.Backend) backend.Backend {
			b.Files = &remembered{Files: b.Files, mine: map[types.UID]bool{}}
			return b
		},
	},
	"clear claims too early": {"files/cleared_until_NotFound", false, func(b backend.Backend) backend.Backend {
		b.Files = hoarder{b.Files}
		return b
	}},
	"volumes go with the attempt": {"files/cleared_until_NotFound", false, func(b backend.Backend) backend.Backend {
		b.Pods = sweeping{b.Pods, b.Files}
		return b
	}},
	"contents are written in place": {"files/a_swap_is_seen_whole", false, func(b backend.Backend) backend.Backend {
		b.Files = placeVia{b.Files, func(ctx context.Context, f backend.Files, spec backend.VolumeSpec) error {
			half := spec
			half.Hash += "'"
			half.Files = append([]backend.File(nil), spec.Files...)
			half.Files[0].Data = half.Files[0].Data[:len(half.Files[0].Data)/2]
			if err := f.Place(ctx, half); err != nil {
				return err
			}
			time.Sleep(time.Second)
			return f.Place(ctx, spec)
		}}
		return b
	}},
	"old files stay": {"files/a_swap_is_seen_whole", false, func(b backend.Backend) backend.Backend {
		b.Files = placeVia{b.Files, func(ctx context.Context, f backend.Files, spec backend.VolumeSpec) error {
			spec.Files = append(spec.Files, backend.File{Path: "older"})
			return f.Place(ctx, spec)
		}}
		return b
	}},
	"an emptyDir is emptied": {"files/an_emptyDir_is_shared", false, func(b backend.Backend) backend.Backend {
		b.Files = placeVia{b.Files, func(ctx context.Context, f backend.Files, spec backend.VolumeSpec) error {
			if err := f.Clear(ctx, backend.Ref{UID: spec.Pod.UID}); err != nil && backend.Class(err) != "NotFound" {
				return err
			}
			return f.Place(ctx, spec)
		}}
		return b
	}},
	"contents are cut": {"files/contents_are_what_containers_read", false, func(b backend.Backend) backend.Backend {
		b.Files = placeVia{b.Files, func(ctx context.Context, f backend.Files, spec backend.VolumeSpec) error {
			spec.Files = spec.Files[:len(spec.Files)-1]
			return f.Place(ctx, spec)
		}}
		return b
	}},
	"a launch drops contents": {"files/contents_are_what_containers_read", true, func(b backend.Backend) backend.Backend {
		b.Pods = launchWith{b.Pods, func(spec *backend.LaunchSpec) {
			for i := range spec.Volumes {
				spec.Volumes[i].Files = nil
			}
		}}
		return b
	}},
	"commands always succeed": {"exec/exit_codes_and_output", true, func(b backend.Backend) backend.Backend {
		inner := b.Exec
		b.Exec = execVia(func(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
			_, err := inner.Exec(ctx, ref, spec)
			return 0, err
		})
		return b
	}},
	"streams are mixed": {"exec/exit_codes_and_output", false, func(b backend.Backend) backend.Backend {
		inner := b.Exec
		b.Exec = execVia(func(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
			spec.Stderr = spec.Stdout
			return inner.Exec(ctx, ref, spec)
		})
		return b
	}},
	"input is dropped": {"exec/input", false, func(b backend.Backend) backend.Backend {
		inner := b.Exec
		b.Exec = execVia(func(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
			spec.Stdin = nil
			return inner.Exec(ctx, ref, spec)
		})
		return b
	}},
	"one command at a time": {"exec/several_at_once", false, func(b backend.Backend) backend.Backend {
		inner := b.Exec
		var busy atomic.Bool
		b.Exec = execVia(func(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
			if !busy.CompareAndSwap(false, true) {
				return 0, backend.Errorf(backend.ErrThrottled, "busy")
			}
			defer busy.Store(false)
			return inner.Exec(ctx, ref, spec)
		})
		return b
	}},
	"commands have no classes": {"exec/what_does_not_run_is_NotFound", false, func(b backend.Backend) backend.Backend {
		inner := b.Exec
		b.Exec = execVia(func(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
			code, err := inner.Exec(ctx, ref, spec)
			if backend.Class(err) == "NotFound" {
				return 0, context.Canceled
			}
			return code, err
		})
		return b
	}},
	"a missing program is an exit code": {
		"exec/what_cannot_be_started_is_Invalid",
		false,
		func(b backend.Backend) backend.Backend {
			inner := b.Exec
			b.Exec = execVia(func(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
				code, err := inner.Exec(ctx, ref, spec)
				if backend.Class(err) == "Invalid" {
					return 126, nil
				}
				return code, err
			})
			return b
		},
	},
	"commands outlive their context": {"exec/ends_with_its_context", true, func(b backend.Backend) backend.Backend {
		inner := b.Exec
		b.Exec = execVia(func(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
			return inner.Exec(context.WithoutCancel(ctx), ref, spec)
		})
		return b
	}},
	"connections end at once": {"dial/connects_to_what_listens", false, func(b backend.Backend) backend.Backend {
		inner := b.Dial
		b.Dial = dialVia(func(ctx context.Context, pod backend.Ref, address string) (net.Conn, error) {
			conn, err := inner.Dial(ctx, pod, address)
			if err != nil {
				return nil, err
			}
			return conn, conn.Close()
		})
		return b
	}},
	"refused is unavailable": {"dial/refused_where_nobody_listens", true, func(b backend.Backend) backend.Backend {
		inner := b.Dial
		b.Dial = dialVia(func(ctx context.Context, pod backend.Ref, address string) (net.Conn, error) {
			conn, err := inner.Dial(ctx, pod, address)
			return conn, backend.Classed(backend.ErrUnavailable, err)
		})
		return b
	}},
	"dialling knows no context": {"dial/ended_context", false, func(b backend.Backend) backend.Backend {
		inner := b.Dial
		b.Dial = dialVia(func(ctx context.Context, pod backend.Ref, address string) (net.Conn, error) {
			return inner.Dial(context.WithoutCancel(ctx), pod, address)
		})
		return b
	}},
	"last words are lost": {"exit/termination_message_of_its_file", true, func(b backend.Backend) backend.Backend {
		b.Pods = editedContainers(b.Pods, func(c *backend.ContainerFacts) { c.Message = "" })
		return b
	}},
	"logs are no message": {"exit/termination_message_of_its_log", false, func(b backend.Backend) backend.Backend {
		b.Pods = editedContainers(b.Pods, func(c *backend.ContainerFacts) { c.Message = strings.TrimSuffix(c.Message, "\n") })
		return b
	}},
	"sidecars are waited for": {"init/a_sidecar_ends_after_the_rest", true, func(b backend.Backend) backend.Backend {
		b.Pods = launchWith{b.Pods, func(spec *backend.LaunchSpec) {
			for i := range spec.Containers {
				spec.Containers[i].Container.RestartPolicy = nil
			}
		}}
		return b
	}},
	"only the spec's containers start": {"start/an_ephemeral_container", false, func(b backend.Backend) backend.Backend {
		b.Containers = literal{b.Containers}
		return b
	}},
	"the remote's clock is ahead": {"exit/times_are_in_order", false, func(b backend.Backend) backend.Backend {
		return fault.Wrap(b, &fault.Script{Skew: time.Hour})
	}},
	"the remote's clock is behind": {"exit/times_are_in_order", true, func(b backend.Backend) backend.Backend {
		return fault.Wrap(b, &fault.Script{Skew: -time.Hour})
	}},
}

// editedVolumes changes all facts of volumes.
type editedVolumes struct {
	backend.Files
	edit func(*backend.VolumeFacts)
}

func (f editedVolumes) Volumes(ctx context.Context) ([]backend.VolumeFacts, error) {
	facts, err := f.Files.Volumes(ctx)
	for i := range facts {
		f.edit(&facts[i])
	}
	return facts, err
}

// placeVia places in its own way.
type placeVia struct {
	backend.Files
	place func(context.Context, backend.Files, backend.VolumeSpec) error
}

func (f placeVia) Place(ctx context.Context, spec backend.VolumeSpec) error {
	return f.place(ctx, f.Files, spec)
}

// remembered lists only what this connection placed.
type remembered struct {
	backend.Files
	mine map[types.UID]bool
}

func (f *remembered) Place(ctx context.Context, spec backend.VolumeSpec) error {
	f.mine[spec.Pod.UID] = true
	return f.Files.Place(ctx, spec)
}

func (f *remembered) Volumes(ctx context.Context) ([]backend.VolumeFacts, error) {
	facts, err := f.Files.Volumes(ctx)
	var out []backend.VolumeFacts
	for _, v := range facts {
		if f.mine[v.Pod.UID] {
			out = append(out, v)
		}
	}
	return out, err
}

// hoarder says that nothing is left and keeps it.
type hoarder struct{ backend.Files }

func (hoarder) Clear(context.Context, backend.Ref) error {
	return backend.Errorf(backend.ErrNotFound, "nothing is left")
}

// sweeping removes volumes with an attempt.
type sweeping struct {
	backend.Pods
	files backend.Files
}

func (p sweeping) Remove(ctx context.Context, ref backend.Ref) error {
	err := p.Pods.Remove(ctx, ref)
	if clearing := p.files.Clear(ctx, ref); err == nil && backend.Class(clearing) != "NotFound" {
		err = clearing
	}
	return err
}

// launchWith launches something else.
type launchWith struct {
	backend.Pods
	edit func(*backend.LaunchSpec)
}

func (p launchWith) Launch(ctx, wanted context.Context, spec backend.LaunchSpec) error {
	p.edit(&spec)
	return p.Pods.Launch(ctx, wanted, spec)
}

// literal starts only what stood in the pod's spec.
type literal struct{ backend.Containers }

func (c literal) Start(ctx context.Context, ref backend.Ref, spec backend.ContainerSpec) error {
	for i := range spec.Pod.Spec.Containers {
		if spec.Pod.Spec.Containers[i].Name == spec.Container.Name {
			return c.Containers.Start(ctx, ref, spec)
		}
	}
	return backend.Errorf(backend.ErrInvalid, "the pod has no container %q", spec.Container.Name)
}

type execVia func(context.Context, backend.ContainerRef, backend.ExecSpec) (int32, error)

func (f execVia) Exec(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
	return f(ctx, ref, spec)
}

type dialVia func(context.Context, backend.Ref, string) (net.Conn, error)

func (f dialVia) Dial(ctx context.Context, pod backend.Ref, address string) (net.Conn, error) {
	return f(ctx, pod, address)
}
