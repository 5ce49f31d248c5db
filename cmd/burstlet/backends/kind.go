package backends

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/explain"
	"github.com/burstlet/burstlet/backend/ecs/images"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// Node is the node that a backend is for.
type Node struct {
	// Config is the configuration of this one node.
	Config config.Configuration
	// Identity distinguishes its pods on the remote from those of all other nodes.
	Identity string
	// StandIn is true where the real identity is not known, and a word stands in.
	StandIn bool
	// Version is burstlet's own; a "burstlet sim" compares it with its version.
	Version string
	// May is asked of each change of the remote at the moment it is sent. Nil permits
	// none.
	May backend.Permit
	// Leader names whoever leads the node for this term, among all that ever do, so that
	// the remote can tell them apart. Empty: there is no election.
	Leader string
	// Shared is what nodes of a process have in common; nil: nothing.
	Shared *Shared
}

// Shared is what the backends of a process have in common, in all terms of its nodes.
type Shared struct{ images *images.Known }

// NewShared returns what the nodes of a process are to share.
func NewShared() *Shared { return &Shared{images: images.NewKnown()} }

// Kind is a kind of backend. Fields that are nil say that the kind cannot.
type Kind struct {
	// Place names where the pods run, for people; empty where there is nothing to name.
	Place func(config.Backend) string
	// Caution is what a user must know before anything else; empty: nothing.
	Caution string
	// Away is true of a remote on another machine, which may be down for now.
	Away func(config.Backend) bool
	// InProcess is true of a remote that ends with this process.
	InProcess func(config.Backend) bool
	// New makes the backend. It fails at once where the remote cannot be used.
	New func(context.Context, Node) (backend.Backend, error)
	// Offline makes the backend for questions that are answered without the remote.
	Offline func(context.Context, Node) (backend.Backend, error)
	// Diagnose examines where the pods run and changes nothing there. The error is one
	// of the configuration.
	Diagnose func(context.Context, Node) ([]backend.Finding, error)
	// Try prepares tasks that answer what the remote's service does not document; nil: there
	// is nothing to try.
	Try func(n Node, image string) Trial
	// Taken says, by path, what becomes of the fields of a pod; nil: the kind says
	// nothing of fields.
	Taken func(Node, *corev1.Pod) map[string]string
	// Preview says what a launch would turn into; nil: the containers that the pod
	// names. Errors: Unsupported and Invalid, as a launch has them.
	Preview func(context.Context, Node, backend.LaunchSpec) (Preview, error)
}

// Trial is what tasks would answer, and what they cost.
type Trial struct {
	// Tasks is how many there are, Dollars what they cost at most.
	Tasks   int
	Dollars float64
	// Run runs them and removes what it made, also when the context ends.
	Run func(context.Context) (Answers, error)
}

// Answers are what a trial saw. As JSON they hold nothing of the account.
type Answers interface {
	// WriteTable prints them for people.
	WriteTable(io.Writer) error
}

// Preview is what a launch turns into; the field of the kind is set.
type Preview struct {
	// Host is the sandbox and the containers on a container host.
	Host *explain.Preview `json:"host,omitempty"`
	// Task is the task on ECS.
	Task *taskdef.Preview `json:"task,omitempty"`
}

// Of returns the kind that backend.type names.
func Of(name string) (Kind, error) {
	switch name {
	case config.BackendSim:
		return simKind(), nil
	case config.BackendCRI:
		return criKind(), nil
	case config.BackendECS:
		return ecsKind(), nil
	default:
		return Kind{}, fmt.Errorf("backend.type %q is not one of sim, cri, ecs", name)
	}
}

// New makes the node's backend, as [Kind.New] does.
func New(ctx context.Context, n Node) (backend.Backend, error) {
	kind, err := Of(n.Config.Backend.Type)
	if err != nil {
		return backend.Backend{}, err
	}
	return kind.New(ctx, n)
}

// Away is true of a remote on another machine, which may be down for now.
func Away(b config.Backend) bool {
	kind, err := Of(b.Type)
	return err == nil && kind.Away(b)
}

// InProcess is true of a remote that ends with this process.
func InProcess(b config.Backend) bool {
	kind, err := Of(b.Type)
	return err == nil && kind.InProcess(b)
}
