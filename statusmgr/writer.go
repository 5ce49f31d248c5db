package statusmgr

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apifields "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/burstlet/burstlet/statusmgr/transition"
)

const (
	// The first retry comes after backoffBase, each further one after twice the
	// time, until backoffMax: the kubelet's own batch interval, so that after an
	// outage of the API we are never later than it.
	backoffBase = 100 * time.Millisecond
	backoffMax  = 10 * time.Second
	// backoffRefused bounds the delay for what the API finds invalid. A new
	// status, or a change of the object, is tried at once.
	backoffRefused = 5 * time.Minute
	// maxInstantRetries bounds the retries without delay after an attempt that
	// was made on a stale object.
	maxInstantRetries = 3
	// rewriteCalm ends the slowing down of rewrites.
	rewriteCalm = time.Minute
	// holdRecheck is a safety net. What was held back is looked at again as soon
	// as the engine sets a status or reclaims the pod.
	holdRecheck = 10 * time.Second
	// condemnedGrace is how long the API server may take to finish a delete with
	// grace 0 itself.
	condemnedGrace = 5 * time.Second
)

// job is one pod at the time a writer took it.
type job struct {
	entry     *entry // without the lock only compared, and its uid and name read
	uid       types.UID
	name      types.NamespacedName
	api       *corev1.Pod
	want      *corev1.PodStatus
	version   uint64
	reclaimed bool
	deleted   bool
	heldBack  bool // by the look before
}

// outcome is what a writer found out.
type outcome struct {
	api      *corev1.Pod // the newest object seen; never nil
	wrote    bool        // the API took a patch
	gone     bool        // the API has no pod of this UID under the name
	heldBack bool        // phase or delete waits until no container can run
	deferred bool        // nothing is written yet: the end of all is about to follow
	deleted  bool        // our delete was accepted
	refused  error       // the wanted status is illegal for the object the API holds
	err      error       // of a call that has to be repeated
	stale    bool        // err may be due to the object we had: api is a newer one
}

// sync brings one pod's status into the API and, when all is done, deletes it.
func (m *Manager) sync(ctx context.Context, j job) outcome {
	out := outcome{api: j.api}
	mayRun := true
	if terminal(j.api.Status.Phase) || (j.want != nil && terminal(j.want.Phase)) || condemned(j.api) {
		mayRun = m.safety.CouldHaveRunningContainers(j.uid)
	}
	if writable(j, mayRun) {
		m.write(ctx, j, mayRun, &out)
	}
	if out.err != nil || out.gone || out.refused != nil || out.deferred {
		return out
	}
	switch {
	case !deletable(out.api, j):
	case mayRun, condemned(out.api) && time.Since(out.api.DeletionTimestamp.Time) < condemnedGrace:
		out.heldBack = true
	case m.current(j):
		m.delete(ctx, j, &out)
	}
	return out
}

// write patches the status if the API does not hold it already.
func (m *Manager) write(ctx context.Context, j job, mayRun bool, out *outcome) {
	if out.refused = transition.Check(&j.api.Spec, &j.api.Status, j.want); out.refused != nil {
		m.metrics.writes.WithLabelValues(resultRefused).Inc()
		log.G(ctx).WithFields(fields(j.entry)).WithError(out.refused).Error("pod status refused")
		return
	}
	merged, heldBack := merge(binding(j.api), j.want, mayRun, time.Now())
	out.heldBack = heldBack
	if heldBack && !j.heldBack && j.api.DeletionTimestamp != nil {
		out.deferred = true
		return
	}
	if sameStatus(j.api, merged) {
		m.metrics.writes.WithLabelValues(resultUnchanged).Inc()
		return
	}
	patch, err := statusPatch(j.api, merged)
	if err != nil {
		out.err = err
		return
	}
	if patch == nil {
		m.metrics.writes.WithLabelValues(resultUnchanged).Inc()
		return
	}
	call, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	reply, err := m.client.Pods(j.name.Namespace).Patch(call, j.name.Name,
		types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	m.metrics.writes.WithLabelValues(result(err)).Inc()
	if apierrors.IsNotFound(err) {
		out.gone = true
		return
	}
	if err != nil {
		m.explain(ctx, j, err, out)
		return
	}
	out.api, out.wrote = reply, true
	if reply.Status.Phase != j.api.Status.Phase {
		log.G(ctx).WithFields(fields(j.entry)).WithField("phase", reply.Status.Phase).Info("pod phase reported")
	}
}

// condemned reports whether the API server is about to remove the pod: a delete
// with grace 0 first writes the deletionTimestamp, then removes the object. It
// takes an update between the two for the last one and removes the object itself,
// by name and without a precondition, and so a successor that was made meanwhile
// (ShouldDeleteDuringUpdate and deleteWithoutFinalizers in apiserver's
// pkg/registry/generic/registry/store.go, Kubernetes 1.36; a PUT has the UID as
// its precondition, a PATCH has none). Nobody is left to read the status anyway.
func condemned(api *corev1.Pod) bool {
	grace := api.DeletionGracePeriodSeconds
	return api.DeletionTimestamp != nil && len(api.Finalizers) == 0 && (grace == nil || *grace == 0)
}

// deletable reports whether only the containers' end stands between the pod and
// its delete: the API shows it terminal (canBeDeleted in the kubelet's
// status_manager.go), or an API server that ended halfway left it condemned, and
// the engine has reclaimed it. A pod whose grace is 0 and that a finalizer keeps
// needs no delete: the API removes it with the finalizer.
func deletable(api *corev1.Pod, j job) bool {
	if api.DeletionTimestamp == nil || !j.reclaimed || j.deleted || !terminal(api.Status.Phase) && !condemned(api) {
		return false
	}
	grace := api.DeletionGracePeriodSeconds
	return len(api.Finalizers) == 0 || grace == nil || *grace > 0
}

// writable reports whether there is a status to say and somebody to read it.
func writable(j job, mayRun bool) bool {
	return j.want != nil && !condemned(j.api) && (mayRun || !lastWord(j))
}

// lastWord reports whether the pod only waits for its delete and the API shows
// already all of its end that matters: what is left to say is gone with the pod.
func lastWord(j job) bool {
	if !deletable(j.api, j) {
		return false
	}
	merged, _ := merge(binding(j.api), j.want, false, time.Now())
	return !matters(&j.api.Status, merged)
}

// current reports whether the job still holds the newest status: what came
// meanwhile is written before the delete.
func (m *Manager) current(j job) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[j.uid]
	return e != nil && e == j.entry && e.version == j.version
}

func (m *Manager) delete(ctx context.Context, j job, out *outcome) {
	call, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	err := m.client.Pods(j.name.Namespace).Delete(call, j.name.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64),
		Preconditions:      metav1.NewUIDPreconditions(string(j.uid)),
	})
	m.metrics.deletes.WithLabelValues(result(err)).Inc()
	if err != nil {
		m.explain(ctx, j, err, out)
		return
	}
	out.deleted = true
	log.G(ctx).WithFields(fields(j.entry)).Info("pod deleted from the API")
}

// explain finds out what a failed call means. A conflict is a newer object,
// another UID under the name, or, since a patch that carries a UID is refused
// before the absence is noticed, no object at all; an invalid status may have
// been made from a stale object, and a foreign UID is reported as invalid too. A
// delete that finds nothing may have met an API server that has just started: its
// NodeRestriction plugin answers so from an informer (admitPod in
// plugin/pkg/admission/noderestriction, Kubernetes 1.36). Only here the pod is read.
func (m *Manager) explain(ctx context.Context, j job, err error, out *outcome) {
	out.err = err
	if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) {
		return
	}
	fresh, readErr := m.read(ctx, j.name, out.api.Spec.NodeName)
	switch {
	case readErr != nil:
		log.G(ctx).WithFields(fields(j.entry)).WithError(readErr).Debug("pod not read after a refused write")
	case fresh == nil || fresh.UID != j.uid:
		out.gone, out.err = true, nil
	default:
		out.stale = fresh.ResourceVersion != out.api.ResourceVersion || apierrors.IsConflict(err)
		out.api = fresh
	}
}

// read returns the node's pod of that name; nil where there is none. It lists: a node
// may not get a pod that is gone, nor one that a new API server's Node authorizer does
// not know yet, and is told the same of both; its own pods it may always list.
func (m *Manager) read(ctx context.Context, name types.NamespacedName, node string) (*corev1.Pod, error) {
	call, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	list, err := m.client.Pods(name.Namespace).List(call, metav1.ListOptions{
		FieldSelector: apifields.Set{metav1.ObjectNameField: name.Name, "spec.nodeName": node}.String(),
	})
	if err != nil || len(list.Items) == 0 {
		return nil, err
	}
	return &list.Items[0], nil
}

// backoff is the time until the next attempt after so many failures in a row.
func backoff(failures int, limit time.Duration, err error) time.Duration {
	delay := doubled(backoffBase, failures-1, limit)
	delay += time.Duration(rand.Int64N(int64(delay)/5 + 1)) // apart from each other
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		delay = max(delay, time.Duration(seconds)*time.Second)
	}
	return delay
}

// rewriteDelay is how long a status that was written again so many times is left
// alone after the last time: somebody seems to disagree with it.
func rewriteDelay(rewrites int) time.Duration {
	if rewrites == 0 {
		return 0
	}
	return doubled(time.Second, rewrites-1, backoffMax)
}

func doubled(base time.Duration, times int, limit time.Duration) time.Duration {
	if times > 16 {
		return limit
	}
	return min(limit, base<<times)
}

// invalid reports an error that the same request will meet again.
func invalid(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// refusedByAPI reports an error that a shutdown need not wait for.
func refusedByAPI(err error) bool {
	return invalid(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}

// result is the metric label of a call.
func result(err error) string {
	switch {
	case err == nil:
		return resultWritten
	case apierrors.IsNotFound(err):
		return resultGone
	case apierrors.IsConflict(err):
		return resultConflict
	case invalid(err):
		return resultInvalid
	case refusedByAPI(err):
		return resultForbidden
	case apierrors.IsTooManyRequests(err):
		return resultThrottled
	case errors.Is(err, context.DeadlineExceeded), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return resultTimeout
	case errors.Is(err, context.Canceled):
		return resultCanceled
	default:
		return resultError
	}
}

// compareVersions compares two objects of one kind by resourceVersion; known is
// false if that cannot be told.
func compareVersions(a, b *corev1.Pod) (age int, known bool) {
	age, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return age, err == nil
}
