package removal

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Deployment is what the processes of the nodes run as.
type Deployment struct {
	Client kubernetes.Interface
	Name   types.NamespacedName
	// Shared is true where it runs other nodes, too, that stay: then it is scaled back
	// if the removal fails. After a removal it stays at 0, since its configuration still
	// has the nodes that are gone.
	Shared bool
	Say    func(line string)

	// was is how many replicas it had before they were taken from it.
	was int32
}

func (d *Deployment) say(format string, args ...any) {
	d.Say("deployment " + d.Name.String() + ": " + fmt.Sprintf(format, args...))
}

// end scales it to zero and waits until its processes have ended.
func (d *Deployment) end(ctx context.Context) error {
	deployments := d.Client.AppsV1().Deployments(d.Name.Namespace)
	selector := ""
	err := try(ctx, func() error {
		scale, err := deployments.GetScale(ctx, d.Name.Name, metav1.GetOptions{})
		if err != nil {
			return ignoreGone(err)
		}
		selector = scale.Status.Selector
		if scale.Spec.Replicas == 0 {
			return nil
		}
		d.was, scale.Spec.Replicas = scale.Spec.Replicas, 0
		_, err = deployments.UpdateScale(ctx, d.Name.Name, scale, metav1.UpdateOptions{})
		return ignoreGone(err)
	})
	if err != nil {
		return fmt.Errorf("scale deployment %s to 0: %w", d.Name, err)
	}
	if selector == "" {
		d.say("is not there")
		return nil
	}
	d.say("scaled to 0")
	err = until(ctx, func() (bool, time.Duration, error) {
		pods, err := d.Client.CoreV1().Pods(d.Name.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return false, 0, err
		}
		return count(pods.Items) == 0, lookAgain, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the processes of deployment %s: %w", d.Name, err)
	}
	d.say("its processes have ended")
	return nil
}

// restore gives it back the replicas that end took from it.
func (d *Deployment) restore(ctx context.Context) error {
	if !d.Shared {
		return nil
	}
	if d.was == 0 {
		d.say("was at 0 and stays there: its other nodes are not run until you scale it up")
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	deployments := d.Client.AppsV1().Deployments(d.Name.Namespace)
	err := try(ctx, func() error {
		scale, err := deployments.GetScale(ctx, d.Name.Name, metav1.GetOptions{})
		if err != nil || scale.Spec.Replicas != 0 {
			return err
		}
		scale.Spec.Replicas = d.was
		_, err = deployments.UpdateScale(ctx, d.Name.Name, scale, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("deployment %s is at 0 and its other nodes are not run; scale it to %d: %w", d.Name, d.was, err)
	}
	d.say("scaled back to %d, for its other nodes", d.was)
	return nil
}

// count counts the pods of a Deployment in which a process may run. Others, as
// those of Jobs, may have the same labels.
func count(pods []corev1.Pod) int {
	n := 0
	for i := range pods {
		if c := metav1.GetControllerOf(&pods[i]); c != nil && c.Kind == "ReplicaSet" && !terminal(&pods[i]) {
			n++
		}
	}
	return n
}

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
