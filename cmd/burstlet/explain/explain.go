package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/cmd/burstlet/access"
	"github.com/burstlet/burstlet/cmd/burstlet/backends"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// explanation is what would become of one pod on one node.
type explanation struct {
	Node     string `json:"node"`
	Backend  string `json:"backend"`
	Pod      string `json:"pod"`
	Accepted bool   `json:"accepted"`
	// Refused come first: what keeps the pod from running.
	Refused []fieldFate `json:"refused,omitempty"`
	Taken   []fieldFate `json:"taken,omitempty"`
	// Containers are what would run, on the simulated backend.
	Containers []explainedContainer `json:"containers,omitempty"`
	// Preview is what it turns into; empty of a pod that is refused.
	backends.Preview
	Notes []string `json:"notes,omitempty"`
}

// fieldFate is what becomes of one field.
type fieldFate struct {
	Field string `json:"field"`
	// How says what it becomes, or why it is refused.
	How string `json:"how,omitempty"`
}

type explainedContainer struct {
	Name    string   `json:"name"`
	Image   string   `json:"image"`
	Init    bool     `json:"init,omitempty"`
	Command []string `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
}

// node is a node that pods are explained for.
type node struct {
	backends.Node
	kind backends.Kind
	// offline answers what is answered without the remote.
	offline backend.Backend
}

func newNode(ctx context.Context, c config.Configuration) (node, error) {
	n := node{Node: backends.Node{Config: c, Identity: access.StandInIdentity(c)}}
	var err error
	if n.kind, err = backends.Of(c.Backend.Type); err != nil {
		return n, err
	}
	n.offline, err = n.kind.Offline(ctx, n.Node)
	return n, err
}

// Run prints what becomes of each pod on each node, as text or as JSON. Errors: how many
// pods are refused, or that one could not be explained.
func Run(ctx context.Context, out io.Writer, nodes []config.Configuration, pods []Template, format string) error {
	var all []explanation
	refused := 0
	for _, c := range nodes {
		n, err := newNode(ctx, c)
		if err != nil {
			return fmt.Errorf("node %s: %w", c.Node.Name, err)
		}
		for _, pod := range pods {
			e, err := n.explain(ctx, pod)
			if err != nil {
				return fmt.Errorf("%s on node %s: %w", pod.name, c.Node.Name, err)
			}
			if !e.Accepted {
				refused++
			}
			all = append(all, e)
		}
	}
	if err := printExplanations(out, all, format); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	switch refused {
	case 0:
		return nil
	case 1:
		return errors.New("one pod is refused")
	}
	return fmt.Errorf("%d pods are refused", refused)
}

func printExplanations(out io.Writer, all []explanation, format string) error {
	if format == config.FormatJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(all)
	}
	for i, e := range all {
		if i > 0 {
			if _, err := fmt.Fprintln(out); err != nil {
				return err
			}
		}
		if err := e.print(out); err != nil {
			return err
		}
	}
	return nil
}

// explain explains one pod.
func (n node) explain(ctx context.Context, t Template) (explanation, error) {
	e := explanation{Node: n.Config.Node.Name, Backend: n.Config.Backend.Type, Pod: t.name, Notes: t.notes}
	for _, r := range allRefusals(n.Config, n.offline, t.pod) {
		e.Refused = append(e.Refused, fieldFate{r.Field, r.Why})
	}
	how := map[string]string{}
	if n.kind.Taken != nil {
		how = n.kind.Taken(n.Node, t.pod)
	}
	e.Taken = taken(t.pod, how, e.Refused)
	e.Accepted = len(e.Refused) == 0
	if n.kind.Preview == nil {
		e.Containers = containersOf(t.pod)
		return e, nil
	}
	if !e.Accepted {
		return e, nil
	}
	var err error
	e.Preview, err = n.preview(ctx, t.pod)
	if errors.Is(err, backend.ErrUnsupported) || errors.Is(err, backend.ErrInvalid) {
		e.Accepted, e.Refused = false, []fieldFate{{"spec", err.Error()}}
		return e, nil
	}
	return e, err
}

// preview says what the pod turns into. Errors: Unsupported and Invalid, as a launch
// has them.
func (n node) preview(ctx context.Context, pod *corev1.Pod) (backends.Preview, error) {
	launch, err := launchOf(n.Config, n.offline, pod)
	if err != nil {
		return backends.Preview{}, err
	}
	return n.kind.Preview(ctx, n.Node, launch)
}

func containersOf(pod *corev1.Pod) []explainedContainer {
	var out []explainedContainer
	for i, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			out = append(out, explainedContainer{Name: c.Name, Image: c.Image, Init: i == 0, Command: c.Command, Args: c.Args})
		}
	}
	return out
}
