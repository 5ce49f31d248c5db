package soak

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/backend/pause"
	"github.com/burstlet/burstlet/test/kit/hostile"
	"github.com/burstlet/burstlet/test/parts/images"
)

const (
	namespace = "soak"
	// bigPod is the size of the largest pods; the API server takes 1.5 MiB.
	bigPod = 1 << 20
	// scrapePause lies between two rounds of scrapes, as Prometheus and metrics-server make
	// them, only more often.
	scrapePause = 5 * time.Second
)

// load is what the nodes bear.
type load struct {
	*world
	pods map[string][]string // by node: the name of the pod in each slot

	mu  sync.Mutex // of pods
	gen atomic.Int64

	scraped, unanswered atomic.Int64 // scrapes
	followed            atomic.Int64 // logs
	enemies             []*hostile.Client
}

// pod is the next one in a slot of a node.
func (l *load) pod(node string, slot int) *corev1.Pod {
	grace, token := int64(2), node == nodeSSH
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%04d-%d", node, slot, l.gen.Add(1))},
		Spec: corev1.PodSpec{
			NodeName: node, AutomountServiceAccountToken: &token, TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{
				Name: "app", Image: images.BusyboxRef,
				Command: []string{"sh", "-c", "trap 'exit 0' TERM; echo up; sleep 100000 & wait"},
			}},
		},
	}
	if node != nodeSim {
		return pod
	}
	app := &pod.Spec.Containers[0]
	// All ConfigMaps are somebody's, and no two pods share one.
	for i := slot * counts.configMaps / counts.sim; i < (slot+1)*counts.configMaps/counts.sim; i++ {
		name := configMap(i)
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
		}})
		app.VolumeMounts = append(app.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
	}
	if slot < counts.big {
		for i := range 8 {
			app.Env = append(app.Env, corev1.EnvVar{Name: fmt.Sprint("BIG_", i), Value: strings.Repeat("b", bigPod/8)})
		}
	}
	return pod
}

func configMap(i int) string { return fmt.Sprintf("map-%05d", i) }

// ramp makes everything, and waits until it is Ready.
func (l *load) ramp() {
	l.Helper()
	l.forEach(counts.configMaps, func(i int) error {
		_, err := l.client.CoreV1().ConfigMaps(namespace).Create(l.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: configMap(i)}, Data: map[string]string{"key": strings.Repeat("value ", 100)},
		}, metav1.CreateOptions{})
		return err
	})
	for _, node := range l.nodes {
		l.pods[node] = make([]string, map[string]int{nodeSim: counts.sim, nodeSSH: counts.ssh}[node])
		l.forEach(len(l.pods[node]), func(slot int) error { return l.create(l.Context(), node, slot) })
	}
	l.settled()
}

func (l *load) create(ctx context.Context, node string, slot int) error {
	pod := l.pod(node, slot)
	l.world.pods.create(pod.Name, node)
	l.mu.Lock()
	l.pods[node][slot] = pod.Name
	l.mu.Unlock()
	_, err := l.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

func (l *load) name(node string, slot int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pods[node][slot]
}

// churn replaces the pods of a node one by one, so many a second, until ctx ends.
func (l *load) churn(ctx context.Context, node string, perSecond float64) {
	every := time.Duration(float64(time.Second) / perSecond)
	for slot := 0; pause.For(ctx, every) == nil; slot = (slot + 1) % len(l.pods[node]) {
		whole := context.WithoutCancel(ctx) // in the end each slot has its pod
		err := l.client.CoreV1().Pods(namespace).Delete(whole, l.name(node, slot), metav1.DeleteOptions{})
		if err == nil {
			err = l.create(whole, node, slot)
		}
		if err != nil {
			l.Errorf("replace a pod: %v", err)
		}
	}
}

// edit changes a ConfigMap a second.
func (l *load) edit(ctx context.Context) {
	for pause.For(ctx, time.Second) == nil {
		patch := fmt.Appendf(nil, `{"data":{"changed":"%d"}}`, time.Now().UnixNano())
		_, err := l.client.CoreV1().ConfigMaps(namespace).Patch(ctx, configMap(rand.IntN(counts.configMaps)),
			types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil && ctx.Err() == nil {
			l.Errorf("change a ConfigMap: %v", err)
		}
	}
}

// port is that of a node's kubelet API where it is served now.
func (l *load) port(node string) int { return l.ports[l.leader.Load()][node] }

// scrapes asks a node for all that monitoring wants, until ctx ends. While steady holds,
// answers are counted.
func (l *load) scrapes(ctx context.Context, node string, steady *atomic.Bool) {
	for pause.For(ctx, scrapePause) == nil {
		for _, path := range []string{"/metrics", "/metrics/resource", "/metrics/probes", "/stats/summary", "/pods"} {
			counted := steady.Load()
			one, cancel := context.WithTimeout(ctx, scrapeLimit)
			err := read(one, l.asAdmin, fmt.Sprintf("https://127.0.0.1:%d%s", l.port(node), path))
			cancel()
			if !counted || !steady.Load() || ctx.Err() != nil {
				continue
			}
			if l.scraped.Add(1); err != nil {
				l.unanswered.Add(1)
				l.Logf("scrape: %v", err)
			}
		}
	}
}

// follow follows the log of one pod of the simulation after the other, for as long as each
// lives.
func (l *load) follow(ctx context.Context) {
	for pause.For(ctx, time.Second) == nil {
		name := l.name(nodeSim, rand.IntN(counts.sim))
		resp, err := get(
			ctx, l.asAdmin,
			fmt.Sprintf("https://127.0.0.1:%d/containerLogs/%s/%s/app?follow=true", l.port(nodeSim), namespace, name),
		)
		if err != nil {
			continue // it is not up yet, or not any more
		}
		l.followed.Add(1)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}

// attack has hostile clients on each port of the kubelet API, also those where nobody
// listens just now.
func (l *load) attack(ctx context.Context, group *sync.WaitGroup) {
	admitted := l.admitted()
	for _, ports := range l.ports {
		for _, node := range l.nodes {
			enemy := &hostile.Client{Address: fmt.Sprint("127.0.0.1:", ports[node]), Pause: 100 * time.Millisecond}
			l.enemies = append(l.enemies, enemy)
			for range counts.floods {
				group.Go(func() { enemy.Tokens(ctx) })
			}
			group.Go(func() { enemy.Idle(ctx, counts.idle) })
			group.Go(func() {
				enemy.Streams(ctx, counts.unread, hostile.Target{TLS: admitted, Container: "app", Pod: func() string {
					return namespace + "/" + l.name(node, rand.IntN(len(l.pods[node])))
				}})
			})
		}
	}
}

// admitted is the certificate of a hostile client that may do all.
func (l *load) admitted() *tls.Config {
	l.Helper()
	credential, err := l.cp.Credential("hostile", "system:masters")
	l.must(err)
	config, err := rest.TLSConfigFor(credential)
	l.must(err)
	config.InsecureSkipVerify, config.NextProtos = true, nil //nolint:gosec // a test's
	return config
}
