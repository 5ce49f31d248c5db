package images

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/imageref"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

// maxUsers bounds the images whose users are remembered.
const maxUsers = 1024

// Puller implements [backend.Images].
type Puller struct {
	api runtimeapi.ImageServiceClient

	mu sync.Mutex
	// users are those that images run as, by the image's id.
	users map[string]convert.ImageUser
}

// NewPuller is of a runtime.
func NewPuller(api runtimeapi.ImageServiceClient) *Puller {
	return &Puller{api: api, users: map[string]convert.ImageUser{}}
}

// Find asks for the image as the pod names it.
func (p *Puller) Find(ctx context.Context, image string) (string, error) {
	name, err := imageref.Normalize(image)
	if err != nil {
		return "", fmt.Errorf("find image: %w", err)
	}
	found, err := p.status(ctx, name)
	if err != nil {
		return "", err
	}
	if found.GetId() == "" {
		return "", backend.Errorf(backend.ErrNotFound, "find image %q: not on the host", image)
	}
	return found.GetId(), nil
}

// status is nil without an error when the image is not there.
func (p *Puller) status(ctx context.Context, image string) (*runtimeapi.Image, error) {
	reply, err := p.api.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: image}})
	if transport.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, transport.Failed(err, "find image %q", image)
	}
	if found := reply.GetImage(); found != nil {
		p.keepUser(found.GetId(), userOf(found))
	}
	return reply.GetImage(), nil
}

// User is the user that the image runs as. An id is always of the same image,
// so that it is not asked for twice.
func (p *Puller) User(ctx context.Context, image string) (convert.ImageUser, error) {
	if user, known := p.user(image); known {
		return user, nil
	}
	found, err := p.status(ctx, image)
	if err != nil {
		return convert.ImageUser{}, err
	}
	if found == nil {
		return convert.ImageUser{}, fmt.Errorf("find the user of image %q: the image is not on the host", image)
	}
	return userOf(found), nil
}

func userOf(image *runtimeapi.Image) convert.ImageUser {
	if uid := image.GetUid(); uid != nil {
		return convert.ImageUser{UID: &uid.Value}
	}
	if name := image.GetUsername(); name != "" {
		return convert.ImageUser{Name: name}
	}
	var root int64
	return convert.ImageUser{UID: &root}
}

// keepUser remembers whom an image runs as.
func (p *Puller) keepUser(id string, user convert.ImageUser) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.users) >= maxUsers {
		clear(p.users)
	}
	p.users[id] = user
}

func (p *Puller) user(id string) (user convert.ImageUser, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	user, known = p.users[id]
	return user, known
}

// Pull tries each credential in turn and returns at the first success. An error
// holds the registry's answer to each.
func (p *Puller) Pull(ctx context.Context, image string, creds []backend.Credential) (backend.PulledImage, error) {
	name, err := imageref.Normalize(image)
	if err != nil {
		return backend.PulledImage{}, fmt.Errorf("pull image: %w", err)
	}
	auths := []*runtimeapi.AuthConfig{nil}
	if len(creds) > 0 {
		auths = auths[:0]
	}
	for _, c := range creds {
		// Without the server: containerd would compare it with the registry it
		// asks, a mirror perhaps, and the choice was made by the caller.
		auths = append(
			auths, &runtimeapi.AuthConfig{Username: c.Username, Password: c.Password, IdentityToken: c.IdentityToken},
		)
	}
	var errs []error
	for _, auth := range auths {
		reply, err := p.api.PullImage(
			ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: name}, Auth: auth},
		)
		if err == nil {
			return p.pulled(ctx, name, reply.GetImageRef())
		}
		errs = append(errs, &pullError{err})
		if status.Code(err) == codes.Unavailable || ctx.Err() != nil {
			break
		}
	}
	return backend.PulledImage{}, pullFailed(errs)
}

// pulled returns the image under the id that Find returns: a runtime may answer a pull
// with a digest instead.
func (p *Puller) pulled(ctx context.Context, name, ref string) (backend.PulledImage, error) {
	found, err := p.status(ctx, name)
	if err != nil {
		return backend.PulledImage{}, err
	}
	return backend.PulledImage{ID: cmp.Or(found.GetId(), ref), Size: found.GetSize()}, nil
}

// pullError is the error of one pull in the kubelet's words, which users and
// their tools know: gRPC's own but for the code Unknown, which says nothing.
type pullError struct{ err error }

func (e *pullError) Error() string {
	if code := status.Code(e.err); code != codes.Unknown && code != codes.Unavailable {
		return fmt.Sprintf("rpc error: code = %s desc = %v", code, e.err)
	}
	return e.err.Error()
}

func (e *pullError) Unwrap() error { return e.err }

// pullFailed keeps the registry's words and nothing else: the engine says what
// was pulled. Whatever the registry said, refused,
// unknown or slow, may be different the next time: only a runtime that cannot
// be reached has a class.
func pullFailed(errs []error) error {
	err := utilerrors.NewAggregate(errs)
	if status.Code(errs[len(errs)-1]) == codes.Unavailable {
		return backend.Classed(backend.ErrUnavailable, err)
	}
	return err
}
