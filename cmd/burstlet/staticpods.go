package main

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/provider"
	"github.com/burstlet/burstlet/statusmgr/mirror"
	"github.com/burstlet/burstlet/syncloop/podsource/manifests"
)

// reasonStaticPod is the reason of Events on the Node about static pods.
const reasonStaticPod = "FailedStaticPod"

// assembleStatic makes what reads static pods and shows them in the API. Without a path
// or URL there are none, and only mirror pods that an earlier configuration left go.
func (n *node) assembleStatic(m materials) {
	pods := m.cfg.Pods
	problem := func(err error) {
		n.events.about(provider.NodeReference(m.cfg.Node.Name), corev1.EventTypeWarning, reasonStaticPod, err.Error())
	}
	n.mirrors = mirror.New(mirror.Config{
		Client: m.client.CoreV1(), Node: m.cfg.Node.Name, NodeUID: func() types.UID { return n.vk.UID() }, Static: n.static,
		InAPI:   n.podsInAPI,
		Refused: func(pod *corev1.Pod) { n.source.Enqueue(pod.Namespace + "/" + pod.Name) }, Problem: problem,
	})
	if pods.StaticPodPath == "" && pods.StaticPodURL == "" {
		n.static.Set(nil)
		return
	}
	n.manifests = manifests.New(manifests.Config{
		Path: pods.StaticPodPath, URL: pods.StaticPodURL, Header: pods.StaticPodURLHeader, Node: m.cfg.Node.Name,
		Changed: func(now []*corev1.Pod, whole bool) {
			set := n.static.Set
			if !whole {
				set = n.static.SetSome
			}
			for _, key := range set(now) {
				n.source.Enqueue(key)
			}
			n.mirrors.Changed()
		},
		Problem: problem,
	})
}

// enqueue says that a pod in the API may have changed.
func (n *node) enqueue(key string) {
	n.source.Enqueue(key)
	if n.static.HasKey(key) {
		n.mirrors.Changed()
	}
}

// podsInAPI are the node's pods as the informer has them.
func (n *node) podsInAPI() (pods []*corev1.Pod, known bool) {
	if !n.pods.HasSynced() {
		return nil, false
	}
	for _, item := range n.pods.GetStore().List() {
		if pod, ok := item.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods, true
}
