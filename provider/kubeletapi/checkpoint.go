package kubeletapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// checkpointTimeout is what a checkpoint may take at least (kubelet: runtimeRequestTimeout);
// maxCheckpointTimeout is what a caller may ask for at most.
const (
	checkpointTimeout    = 2 * time.Minute
	maxCheckpointTimeout = 24 * time.Hour
)

// checkpoint writes an archive of a container on its host, and answers with its path. What
// cannot be is told in the kubelet's words and statuses.
func (s *Server) checkpoint(w http.ResponseWriter, r *http.Request) {
	namespace, name, container := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")
	pods := s.cfg.Engine.Pods(func(p *corev1.Pod) bool { return p.Namespace == namespace && p.Name == name })
	if len(pods) == 0 {
		answerError(w, r, http.StatusNotFound, errors.New("pod does not exist"))
		return
	}
	if !hasContainer(&pods[0].Spec, container) {
		answerError(w, r, http.StatusNotFound, fmt.Errorf("container %v does not exist", container))
		return
	}
	timeout, err := checkpointTime(r.URL.Query()["timeout"])
	if err != nil {
		answerError(w, r, http.StatusNotFound, err)
		return
	}
	x := s.audit(r)
	defer x.end()
	location, err := s.cfg.Engine.Checkpoint(
		r.Context(), backend.Ref{Namespace: namespace, Name: name}, container, timeout,
	)
	x.result(r.Context(), err)
	if err != nil {
		answerError(w, r, http.StatusInternalServerError, fmt.Errorf(
			"checkpointing of %v/%v/%v failed (%w)", namespace, name, container, err,
		))
		return
	}
	writeJSON(w, r, map[string][]string{"items": {location}})
}

// checkpointTime is how long a checkpoint may take: the last of the seconds that were given,
// where that is more than the least.
func checkpointTime(given []string) (time.Duration, error) {
	if len(given) == 0 {
		return checkpointTimeout, nil
	}
	seconds, err := strconv.ParseInt(given[len(given)-1], 10, 64)
	if err != nil {
		return 0, errors.New("cannot parse value of timeout parameter")
	}
	if seconds < 0 {
		return 0, errors.New("the timeout parameter must not be negative")
	}
	return max(checkpointTimeout, time.Duration(min(seconds, int64(maxCheckpointTimeout/time.Second)))*time.Second), nil
}

func hasContainer(spec *corev1.PodSpec, name string) bool {
	return slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == name }) ||
		slices.ContainsFunc(spec.InitContainers, func(c corev1.Container) bool { return c.Name == name }) ||
		slices.ContainsFunc(spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == name })
}
