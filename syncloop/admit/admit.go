// Package admit says which pods the node cannot take, and when to say so.
//
// The engine's own refusals are the fields of a pod that it does not build yet;
// each goes from this list when its capability lands. The backend adds what the
// remote cannot do. Refusals of the pods of one controller are spaced, because
// a controller replaces a failed pod at once and for ever.
package admit

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// The spacing of refusals of one controller's pods: at once, then 10 s, 20 s …
// 5 min apart; forgotten after twice the last.
const (
	spaceFirst = 10 * time.Second
	spaceMax   = 5 * time.Minute
)

// Judge judges pods.
type Judge struct {
	backend backend.Checker

	mu     sync.Mutex
	owners map[types.UID]spacing
}

type spacing struct {
	next  time.Time
	delay time.Duration
}

// New returns a judge that asks the backend too.
func New(b backend.Checker) *Judge {
	return &Judge{backend: b, owners: map[types.UID]spacing{}}
}

// Judge returns the fields of a pod that cannot be honoured, and when to fail
// the pod for them.
func (j *Judge) Judge(pod *corev1.Pod) ([]backend.Refusal, time.Time) {
	refusals := append(Fields(pod), j.backend.Check(pod)...)
	if len(refusals) == 0 {
		return nil, time.Time{}
	}
	now := time.Now()
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return refusals, now
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.forget(now)
	s := j.owners[owner.UID]
	at := now
	if s.next.After(now) {
		at = s.next
	}
	s.delay = min(max(spaceFirst, 2*s.delay), spaceMax)
	s.next = at.Add(s.delay)
	j.owners[owner.UID] = s
	return refusals, at
}

// forget drops controllers whose pods were not refused for a while.
func (j *Judge) forget(now time.Time) {
	for uid, s := range j.owners {
		if now.After(s.next.Add(s.delay)) {
			delete(j.owners, uid)
		}
	}
}

// Fields returns the fields of a pod that the engine does not build yet.
func Fields(pod *corev1.Pod) []backend.Refusal {
	var out []backend.Refusal
	refuse := func(field, why string) { out = append(out, backend.Refusal{Field: field, Why: why}) }
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		path := fmt.Sprintf("spec.initContainers[%d]", i)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			refuse(path+".restartPolicy", "sidecar containers are not supported yet; use an app container")
		}
		container(path, c, refuse)
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		path := fmt.Sprintf("spec.containers[%d]", i)
		if c.RestartPolicy != nil {
			refuse(path+".restartPolicy", "restart policies of single containers are not supported yet; use spec.restartPolicy")
		}
		container(path, c, refuse)
	}
	if len(pod.Spec.EphemeralContainers) > 0 {
		refuse("spec.ephemeralContainers", "ephemeral containers are not supported yet")
	}
	if len(pod.Spec.ImagePullSecrets) > 0 {
		refuse("spec.imagePullSecrets", "pull secrets are not supported yet; use images that can be pulled without a login")
	}
	return out
}

func container(path string, c *corev1.Container, refuse func(field, why string)) {
	for i, e := range c.Env {
		if e.ValueFrom != nil {
			refuse(fmt.Sprintf("%s.env[%d].valueFrom", path, i), "only literal values are supported yet; use value")
		}
	}
	if len(c.EnvFrom) > 0 {
		refuse(path+".envFrom", "variables from ConfigMaps and Secrets are not supported yet; use env with literal values")
	}
	probe := func(name string, set bool) {
		if set {
			refuse(path+"."+name, "probes are not supported yet; leave it out")
		}
	}
	probe("livenessProbe", c.LivenessProbe != nil)
	probe("readinessProbe", c.ReadinessProbe != nil)
	probe("startupProbe", c.StartupProbe != nil)
	if c.Lifecycle != nil {
		refuse(path+".lifecycle", "lifecycle hooks and stop signals are not supported yet; leave it out")
	}
	if c.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
		refuse(path+".terminationMessagePolicy", "termination messages are not read yet; use File")
	}
	if len(c.RestartPolicyRules) > 0 {
		refuse(path+".restartPolicyRules", "restart rules are not supported yet; use spec.restartPolicy")
	}
}
