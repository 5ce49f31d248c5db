package local

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/localstorage"
)

// A keeper evicts pods over a limit on local storage as the engine does while it is connected,
// by the same measurements and rules. It records an eviction before it stops anything, so that
// the next connection knows why the containers have ended, and it evicts only while no other
// process attends to the node's pods.

// codeNotFound is gRPC's code of a call about what is not there.
const codeNotFound = 5

// keptPod is one with limits, of which containers run.
type keptPod struct {
	uid, logs  string
	limits     localstorage.Limits
	containers []runningContainer
}

// keepLimits evicts pods over their limits, and stops what runs of those that were evicted.
func (h *Host) keepLimits(ctx context.Context, containers []runningContainer, k *host.Keep) error {
	pods, err := limitedPods(containers, k.PodLogs)
	if len(pods) == 0 {
		return err
	}
	over, measureErr := h.overLimits(ctx, pods, k)
	err = errors.Join(err, measureErr)
	evicted, recordErr := h.recordEvictions(pods, over, k)
	err = errors.Join(err, recordErr)
	for _, pod := range evicted {
		if stopErr := h.stopEvicted(ctx, pod, k); stopErr != nil {
			err = errors.Join(err, fmt.Errorf("stop evicted pod %s: %w", pod.uid, stopErr))
		}
	}
	return err
}

// limitedPods are those of the containers that have limits.
func limitedPods(containers []runningContainer, podLogs string) ([]*keptPod, error) {
	var pods []*keptPod
	var errs []error
	byDir := map[string]*keptPod{}
	for _, c := range containers {
		dir := c.podLogs(podLogs)
		pod, known := byDir[dir]
		if !known {
			limits, err := readLimits(dir)
			if err == nil {
				pod = &keptPod{uid: c.labels["io.kubernetes.pod.uid"], logs: dir, limits: limits}
				pods = append(pods, pod)
			} else if !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("%s: %w", dir, err))
			}
			byDir[dir] = pod
		}
		if pod != nil {
			pod.containers = append(pod.containers, c)
		}
	}
	return pods, errors.Join(errs...)
}

// overLimits measures pods, and says which are over a limit, by UID.
func (h *Host) overLimits(ctx context.Context, pods []*keptPod, k *host.Keep) (map[string]*localstorage.Excess, error) {
	reply, err := h.keepCall(ctx, k.Socket, "ListContainerStats", k.Evict.Stats)
	if err != nil {
		return nil, fmt.Errorf("measure the containers: %w", err)
	}
	layers, err := writableLayers(reply)
	if err != nil {
		return nil, fmt.Errorf("measure the containers: %w", err)
	}
	requests := make([]host.PodUsageRequest, len(pods))
	for i, p := range pods {
		requests[i] = host.PodUsageRequest{
			UID: p.uid, LogDir: p.logs, Dir: host.PodDir{Root: k.Root, Node: k.Node, UID: p.uid},
		}
	}
	disks, err := h.measureDisks(ctx, requests)
	if err != nil {
		return nil, err
	}
	over := map[string]*localstorage.Excess{}
	for _, p := range pods {
		if e := p.limits.Over(p.usage(disks[p.uid], layers)); e != nil {
			over[p.uid] = e
		}
	}
	return over, nil
}

// usage is what counts of a measurement and of the layers of containers, by their ids.
func (p *keptPod) usage(disk host.PodUsage, layers map[string]host.Filesystem) *localstorage.Usage {
	u := &localstorage.Usage{Volumes: map[string]uint64{}, Containers: map[string]uint64{}}
	var own []host.Filesystem
	for _, c := range p.containers {
		own = append(own, layers[c.id])
		u.Containers[c.name] = layers[c.id].Used + disk.Logs[c.name].Used
	}
	u.Pod = disk.Ephemeral(own...).Used
	for name, v := range disk.Volumes {
		u.Volumes[name] = v.Used
	}
	return u
}

// recordEvictions records those of pods that are over a limit, and returns the pods that
// have a record, of earlier too: what stopped them may not have come to its end. None while
// somebody attends to them, who sees to all of it.
func (h *Host) recordEvictions(
	pods []*keptPod, over map[string]*localstorage.Excess, k *host.Keep,
) (evicted []*keptPod, err error) {
	held, err := h.alone(k.Root, k.Node)
	if held == nil {
		return nil, err
	}
	var errs []error
	for _, p := range pods {
		_, err := readEviction(p.logs)
		if e := over[p.uid]; errors.Is(err, fs.ErrNotExist) {
			if e == nil {
				continue
			}
			err = writeEviction(
				p.logs, host.Eviction{UID: p.uid, Limit: e.Signal, Used: e.Used, Message: e.Message, Time: time.Now()},
			)
		}
		if err != nil { // without a record nothing is stopped
			errs = append(errs, fmt.Errorf("record that pod %s is evicted: %w", p.uid, err))
			continue
		}
		evicted = append(evicted, p)
	}
	return evicted, errors.Join(append(errs, leaveLock(held))...)
}

// stopEvicted stops all containers of a pod at once.
func (h *Host) stopEvicted(ctx context.Context, p *keptPod, k *host.Keep) error {
	errs := make([]error, len(p.containers))
	var stopping sync.WaitGroup
	for i, c := range p.containers {
		stopping.Go(func() {
			request := binary.AppendUvarint([]byte{1<<3 | wireBytes}, uint64(len(c.id)))
			request = append(request, c.id...)
			request = binary.AppendUvarint(append(request, 2<<3|wireVarint), uint64(k.Evict.Grace/time.Second))
			_, err := h.keepCall(ctx, k.Socket, "StopContainer", request)
			if answer, ok := errors.AsType[*host.CallError](err); !ok || answer.Code != codeNotFound {
				errs[i] = err
			}
		})
	}
	stopping.Wait()
	return errors.Join(errs...)
}

// writableLayers reads a ListContainerStatsResponse (cri-api, api.proto): what containers
// have written to their layers, by their ids.
func writableLayers(reply []byte) (map[string]host.Filesystem, error) {
	layers := map[string]host.Filesystem{}
	err := eachField(reply, func(f field) error {
		if f.tag != 1 { // ContainerStats
			return nil
		}
		var id string
		var layer host.Filesystem
		err := eachField(f.bytes, func(f field) error {
			switch f.tag {
			case 1: // ContainerAttributes
				return eachField(f.bytes, func(f field) error {
					if f.tag == 1 {
						id = string(f.bytes)
					}
					return nil
				})
			case 4: // FilesystemUsage
				return readLayer(f.bytes, &layer)
			}
			return nil
		})
		layers[id] = layer
		return err
	})
	return layers, err
}

// readLayer reads a FilesystemUsage, whose numbers are messages of one field.
func readLayer(message []byte, layer *host.Filesystem) error {
	return eachField(message, func(f field) error {
		into := map[uint64]*uint64{3: &layer.Used, 4: &layer.InodesUsed}[f.tag]
		if into == nil {
			return nil
		}
		return eachField(f.bytes, func(f field) error {
			if f.tag == 1 {
				*into = f.number
			}
			return nil
		})
	})
}
