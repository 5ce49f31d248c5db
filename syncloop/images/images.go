// Package images decides whether an image must be pulled and pulls it: pull
// policies, the logins of pull secrets, a limit on pulls at once, and one pull for
// all who wait for the same image with the same logins. Backoff is the caller's:
// it stands in the plan's input.
//
// An image that is on the remote and was pulled with a login is used by pods that have
// this login, one from the same Secret, or one that a plugin gave for the same
// ServiceAccount; others ask the registry. An image that was
// there before serves every pod: the kubelet's credential verification policy
// NeverVerifyPreloadedImages.
package images

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/images/reference"
)

// Event tells the user something about the pod.
type Event func(kind, reason, format string, args ...any)

// Puller finds and pulls images on one remote.
type Puller struct {
	images  backend.Images
	node    NodeLogins
	records *pullRecords
	limit   time.Duration
	slots   chan struct{}

	mu      sync.Mutex
	pulling map[string]*pull
}

type pull struct {
	done  chan struct{}
	image backend.PulledImage
	err   error
	// took is how long the pull itself lasted, without waiting for its turn.
	took time.Duration
	// waiters counts who wants it; the last to leave ends it.
	waiters int
	cancel  context.CancelFunc
}

// NodeLogins are logins that a node has for all its pods, or for those of a ServiceAccount.
type NodeLogins interface {
	// Credentials are those for an image, by its full name without tag and digest, that a pod
	// wants, in the order in which they are to be tried. It may take a minute.
	Credentials(ctx context.Context, pod *corev1.Pod, repository string) []backend.Credential
}

// WithNodeLogins has pulls try a node's own logins after those of the pod; nil: there are
// none. It is called before the first pull.
func (p *Puller) WithNodeLogins(node NodeLogins) *Puller {
	p.node = node
	return p
}

// New returns a puller that runs at most parallel pulls at once, one after
// another for 1 or less, each bounded by limit if that is not zero. Who pulled what
// is kept in records; nil keeps it as long as the puller.
func New(images backend.Images, records backend.PullRecords, parallel int, limit time.Duration) *Puller {
	return &Puller{
		images: images, records: newPullRecords(records), limit: limit, slots: make(chan struct{}, max(parallel, 1)),
		pulling: map[string]*pull{},
	}
}

// Wanted is an image that a pod wants, for a container or a volume.
type Wanted struct {
	// Pod is the one that wants it.
	Pod *corev1.Pod
	// Image is its name, as the pod has it.
	Image  string
	Policy corev1.PullPolicy
	// Credentials are tried in their order; none is an anonymous pull.
	Credentials []backend.Credential
}

// EnsureImageExists makes sure that an image is on the remote, as its
// pull policy says, and returns its id. Errors are to be told by Reason; none of them
// leaves anything on the remote but an image. Whose container does not start because of
// one, says so with ReportFailed.
func (p *Puller) EnsureImageExists(ctx context.Context, w Wanted, event Event) (string, error) {
	ref, err := reference.Parse(w.Image)
	if err != nil {
		return "", invalidName(event, w.Image, err)
	}
	if w.Policy != corev1.PullAlways {
		id, err := p.find(ctx, w, ref, event)
		if err != nil || id != "" {
			return id, err
		}
	}
	event(corev1.EventTypeNormal, "Pulling", "Pulling image %q", w.Image)
	start := time.Now()
	q, err := p.shared(ctx, w.Image, ref, p.logins(ctx, w, ref))
	switch {
	case err == nil:
		event(corev1.EventTypeNormal, "Pulled", "Successfully pulled image %q in %v (%v including waiting). Image size: "+
			"%v bytes.",
			w.Image, q.took.Truncate(time.Millisecond), time.Since(start).Truncate(time.Millisecond), q.image.Size)
		return q.image.ID, nil
	case errors.Is(err, errCancelled):
		return "", backend.Errorf(backend.ErrThrottled, "pull image %q: %w", w.Image, err)
	case errors.Is(err, backend.ErrInvalid):
		return "", invalidName(event, w.Image, err)
	case notOurs(err):
		return "", fmt.Errorf("pull image %q: %w", w.Image, err)
	}
	return "", pullFailure(event, w.Image, err)
}

// logins are a pod's for an image, and then those of its node.
func (p *Puller) logins(ctx context.Context, w Wanted, ref reference.Reference) []backend.Credential {
	if p.node == nil {
		return w.Credentials
	}
	out := slices.Clone(w.Credentials)
	for _, c := range p.node.Credentials(ctx, w.Pod, ref.Repository) {
		if !slices.ContainsFunc(out, c.SameLogin) {
			out = append(out, c)
		}
	}
	return out
}

// ReportFailed tells the user that a container does not start because of an error of
// EnsureImageExists (kubelet: startContainer, toKubeContainerImageVolumes).
func ReportFailed(err error, event Event) {
	if reason := Reason(err); reason != "" && !notOurs(err) {
		event(corev1.EventTypeWarning, "Failed", "Error: %s", reason)
	}
}

// Present is the id of an image if it is on the remote and may be used as
// it is, by a pod with these logins; empty otherwise, and EnsureImageExists then finds
// out why and what to do. It is for a look ahead of the container's turn: it tells the
// user nothing, AlreadyPresent does.
func (p *Puller) Present(ctx context.Context, w Wanted) string {
	ref, err := reference.Parse(w.Image)
	if err != nil || w.Policy == corev1.PullAlways {
		return ""
	}
	id, may, err := p.imageRef(ctx, w, ref)
	if err != nil || !may {
		return ""
	}
	return id
}

// imageRef returns the id of an image that is there, and whether a pod with these logins may
// use it as it is. What earlier processes recorded of pulls is read beside the look for the
// image, so that a start has no round trip more. Plugins are asked only where a ServiceAccount
// may use the image, for they know whether the pod's is one (kubelet: getPodCredentials).
func (p *Puller) imageRef(ctx context.Context, w Wanted, ref reference.Reference) (id string, may bool, err error) {
	var loading sync.WaitGroup
	var loadErr error
	loading.Go(func() { loadErr = p.records.load(ctx) })
	id, err = p.images.Find(ctx, w.Image)
	loading.Wait()
	if err != nil || loadErr != nil {
		return id, false, cmp.Or(err, loadErr)
	}
	may = p.records.mayUse(ref, id, w.Credentials)
	if !may && p.node != nil && p.records.forAccounts(ref, id) {
		may = p.records.mayUse(ref, id, p.logins(ctx, w, ref))
	}
	return id, may, nil
}

// Listed passes on a listing of the remote's images that began at a time: what is known
// of others is forgotten.
func (p *Puller) Listed(images []backend.ImageFacts, began time.Time) { p.records.prune(images, began) }

// AlreadyPresent tells the user that an image is not pulled because it is there.
func AlreadyPresent(image string, event Event) {
	event(corev1.EventTypeNormal, "Pulled",
		"Container image %q already present on machine and can be accessed by the pod", image)
}

// find returns the id of an image that is there, and that a pod with these logins may use
// as it is; empty if it is to be pulled. Where that is forbidden, one that it may not use
// is as one that is not there (kubelet: imageNotPresentOnNeverPolicyError).
func (p *Puller) find(ctx context.Context, w Wanted, ref reference.Reference, event Event) (string, error) {
	id, may, err := p.imageRef(ctx, w, ref)
	switch {
	case may:
		AlreadyPresent(w.Image, event)
		return id, nil
	case err == nil:
		err = backend.Errorf(backend.ErrNotFound, "find image %q: this pod may not use it without a pull", w.Image)
	}
	switch {
	case errors.Is(err, backend.ErrInvalid):
		return "", invalidName(event, w.Image, err)
	case notOurs(err):
		return "", backend.Classed(errRuntime, fmt.Errorf("look for image %q: %w", w.Image, err))
	case !errors.Is(err, backend.ErrNotFound):
		return "", reportFailure(event, "InspectFailed", errRuntime, err, "Failed to inspect image %q: %v", w.Image, err)
	case w.Policy == corev1.PullNever:
		return "", reportFailure(event, "ErrImageNeverPull", ErrNever, err,
			"Container image %q is not present with pull policy of Never", w.Image)
	}
	return "", nil
}

// shared joins a pull of the same image with the same logins that is under way,
// or begins one.
func (p *Puller) shared(
	ctx context.Context, image string, ref reference.Reference, creds []backend.Credential,
) (*pull, error) {
	key := pullKey(ref, creds)
	p.mu.Lock()
	q := p.pulling[key]
	if q == nil {
		// The pull belongs to all who wait for it: it ends with the last.
		pullCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		q = &pull{done: make(chan struct{}), cancel: cancel}
		p.pulling[key] = q
		go p.pull(pullCtx, image, ref, creds, q)
	}
	q.waiters++
	p.mu.Unlock()
	defer p.leave(key, q)
	select {
	case <-q.done:
		return q, q.err
	case <-ctx.Done():
		return nil, errCancelled
	}
}

// pullKey is the same for pulls that must end the same, and of which the same is recorded.
// It holds the logins only as a hash.
func pullKey(ref reference.Reference, creds []backend.Credential) string {
	hash := sha256.Sum256(append(loginBytes(creds), holderOf(ownLogins(creds)).ServiceAccount...))
	return ref.String() + " " + string(hash[:])
}

// loginBytes are what logins are hashed by; where they come from is no part of them.
func loginBytes(creds []backend.Credential) (all []byte) {
	for _, c := range creds {
		for _, part := range []string{c.Registry, c.Username, c.Password, c.IdentityToken} {
			all = fmt.Appendf(all, "%d:%s", len(part), part)
		}
	}
	return all
}

// leave ends a pull that nobody waits for, and waits until it has ended, so
// that no pull outlives those who asked for it.
func (p *Puller) leave(key string, q *pull) {
	p.mu.Lock()
	q.waiters--
	last := q.waiters == 0
	if last && p.pulling[key] == q {
		delete(p.pulling, key)
	}
	p.mu.Unlock()
	if last {
		q.cancel()
		<-q.done
	}
}

func (p *Puller) pull(ctx context.Context, image string, ref reference.Reference, creds []backend.Credential, q *pull) {
	defer close(q.done)
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		q.err = errCancelled
		return
	}
	if p.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.limit)
		defer cancel()
	}
	if q.err = p.records.begin(ctx, ref, creds); q.err != nil {
		q.err = backend.Classed(errRuntime, q.err)
		return
	}
	start := time.Now()
	q.image, q.err = p.images.Pull(ctx, image, creds)
	q.took = time.Since(start)
	if q.err != nil {
		p.records.failed(ref, creds)
		return
	}
	p.records.pulled(ctx, ref, q.image.ID, creds)
}
