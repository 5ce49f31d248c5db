package removal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// askAgain is how often a pod that was not let go is asked (kubectl drain: 5 s).
	askAgain = 5 * time.Second
	// askAtOnce is how many pods are asked at once.
	askAtOnce = 8
	// podPause is what each pod adds to the time between listings.
	podPause = time.Millisecond
)

func (n *Node) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := n.cfg.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", n.cfg.Name).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("list pods of node %s: %w", n.cfg.Name, err)
	}
	return list.Items, nil
}

// departure is one way of making pods leave.
type departure struct {
	// direct: they are deleted, not evicted.
	direct bool
	// daemons are DaemonSets' pods, too; else they stay.
	daemons bool
	// late are pods that were not there at first, too.
	late bool
	// force deletes them without grace: no process would end them.
	force bool
	// goOn is asked between looks; false ends it before all have left. Nil: true.
	goOn func(context.Context) (bool, error)
}

// leave makes pods leave and waits until they are gone. It returns how many were
// there. Pods that ended and that finalizers hold are not waited for.
func (n *Node) leave(ctx context.Context, d departure) (count int, err error) {
	var first map[types.UID]bool
	seen := map[types.UID]bool{}
	err = until(ctx, func() (bool, time.Duration, error) {
		pods, err := n.pods(ctx)
		if err != nil {
			return false, 0, err
		}
		if first == nil {
			first = map[types.UID]bool{}
			for i := range pods {
				first[pods[i].UID] = true
			}
		}
		left := slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
			return heldByFinalizers(&pod) || isMirror(&pod) || !d.daemons && ofDaemonSet(&pod) || !d.late && !first[pod.UID]
		})
		for i := range left {
			seen[left[i].UID] = true
		}
		if len(left) == 0 {
			return true, 0, nil
		}
		if d.goOn != nil {
			if on, err := d.goOn(ctx); err != nil || !on {
				return !on, 0, err
			}
		}
		return false, lookAgain + time.Duration(len(left))*podPause, n.ask(ctx, left, d)
	})
	return len(seen), err
}

// ask asks each pod to leave that was not asked lately.
func (n *Node) ask(ctx context.Context, pods []corev1.Pod, d departure) error {
	if n.began.IsZero() {
		n.began = time.Now()
		n.sayBare(pods)
	}
	waited := time.Since(n.began)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(askAtOnce)
	for i := range pods {
		pod := &pods[i]
		what := decide(pod, d.direct, waited, n.cfg.ForceAfter)
		if d.force && what == wait {
			what = remove
		}
		n.mu.Lock()
		asked, before := n.asked[pod.UID], n.refused[pod.UID]
		due := time.Since(asked) >= askAgain || what == remove && before != ""
		if what != wait && due {
			n.asked[pod.UID] = time.Now()
		}
		n.mu.Unlock()
		if what == wait || !due {
			continue
		}
		g.Go(func() error {
			err := n.dismiss(ctx, pod, what, d.force)
			if ctx.Err() == nil { // else that is why
				n.answer(pod, what, asked.IsZero(), before, err)
			}
			if hopeless(err) {
				return err
			}
			return nil
		})
	}
	return g.Wait()
}

// sayBare names the pods that end and have no controller to make them again.
func (n *Node) sayBare(pods []corev1.Pod) {
	for i := range pods {
		if isBare(&pods[i]) {
			n.say("pod %s has no controller: nobody makes it again", key(&pods[i]))
		}
	}
}

// answer records the result of asking a pod to leave, and reports it once.
func (n *Node) answer(pod *corev1.Pod, what verb, first bool, before string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case err != nil:
		text := err.Error()
		if n.refused[pod.UID] = text; before == "" {
			n.say("pod %s is not let go: %s", key(pod), text)
		}
		return
	case what == evict:
		n.say("pod %s evicted", key(pod))
	case before != "":
		n.say("pod %s deleted: it was not let go", key(pod))
	case first:
		n.say("pod %s deleted", key(pod))
	}
	delete(n.refused, pod.UID)
}

// dismiss evicts or deletes a pod. One that is gone is no error.
func (n *Node) dismiss(ctx context.Context, pod *corev1.Pod, what verb, force bool) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	if force {
		options.GracePeriodSeconds = new(int64)
	}
	var err error
	if what == evict {
		err = n.cfg.Client.PolicyV1().Evictions(pod.Namespace).Evict(ctx, &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, DeleteOptions: &options,
		})
	} else {
		err = n.cfg.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
	}
	// Conflict: it is another pod of this name.
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// drain makes all pods leave but DaemonSets', as long as somebody runs the node, who
// ends them.
func (n *Node) drain(ctx context.Context) error {
	holder, err := n.server(ctx)
	if err != nil {
		return err
	}
	if holder == "" {
		n.say("no burstlet runs it")
		return nil
	}
	n.say("%s runs it and ends its pods", holder)
	gone := false
	count, err := n.leave(ctx, departure{goOn: func(ctx context.Context) (bool, error) {
		holder, err := n.server(ctx)
		gone = err == nil && holder == ""
		return !gone, err
	}})
	switch {
	case err != nil:
		return fmt.Errorf("drain node %s: %w", n.cfg.Name, err)
	case gone:
		n.say("no burstlet runs it any more")
	default:
		n.say("drained, pods: %d", count)
	}
	return nil
}

// finish makes all pods leave that are left, while this process has the node.
func (n *Node) finish(ctx context.Context) error {
	for _, d := range []departure{{}, {direct: true, daemons: true}} {
		if _, err := n.leave(ctx, d); err != nil {
			return fmt.Errorf("drain node %s: %w", n.cfg.Name, err)
		}
	}
	n.say("its pods have ended")
	return nil
}

// clear deletes pods that were bound to the node after it was deleted, or with force those
// that no process ends.
func (n *Node) clear(ctx context.Context, force bool) error {
	count, err := n.leave(ctx, departure{direct: true, daemons: true, late: true, force: force})
	if err != nil {
		return fmt.Errorf("delete the pods of node %s: %w", n.cfg.Name, err)
	}
	n.say("no pod is bound to it, deleted: %d", count)
	return nil
}

// await waits for pods that finalizers hold.
func (n *Node) await(ctx context.Context) error {
	said := ""
	err := until(ctx, func() (bool, time.Duration, error) {
		pods, err := n.pods(ctx)
		if err != nil || len(pods) == 0 {
			return err == nil, 0, err
		}
		var held []string
		for i := range pods {
			held = append(held, key(&pods[i])+" "+whyLeft(&pods[i], ""))
		}
		if text := strings.Join(held, "; "); text != said {
			said = text
			n.say("waiting: pod %s", text)
		}
		return false, lookAgain, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the pods of node %s: %w", n.cfg.Name, err)
	}
	return nil
}
