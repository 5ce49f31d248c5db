package kubeletapi

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pods answers with all pods of the node.
func (s *Server) pods(w http.ResponseWriter, r *http.Request) {
	pods := s.cfg.Engine.Pods(nil)
	items := make([]corev1.Pod, 0, len(pods))
	for _, pod := range pods {
		items = append(items, *pod)
	}
	writePods(w, r, items)
}

// runningPods answers with what runs now, each pod reduced to its names and the
// containers that run, as the kubelet reports its runtime's view.
func (s *Server) runningPods(w http.ResponseWriter, r *http.Request) {
	items := []corev1.Pod{}
	for _, pod := range s.cfg.Engine.Pods(nil) {
		var containers []corev1.Container
		for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses,
			pod.Status.EphemeralContainerStatuses) {
			if status.State.Running != nil {
				containers = append(containers, corev1.Container{Name: status.Name, Image: status.Image})
			}
		}
		if len(containers) > 0 {
			items = append(items, corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
				Spec:       corev1.PodSpec{Containers: containers},
			})
		}
	}
	writePods(w, r, items)
}

func writePods(w http.ResponseWriter, r *http.Request, items []corev1.Pod) {
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: items}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(&list); err != nil && r.Context().Err() == nil {
		log.G(r.Context()).WithError(err).Debug("pod list not sent")
	}
}
