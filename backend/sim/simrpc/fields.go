package simrpc

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// backend lends what the server lends.
func (c *client) backend() backend.Backend {
	b := backend.Backend{
		Name: c.agreed.Name, Check: c.cfg.Check, Limits: c.agreed.Limits,
		Run: func(ctx context.Context, _ backend.Permit) error { return c.run(ctx) }, // it changes nothing
	}
	for field, lend := range map[string]func(){
		"pods":       func() { b.Pods = podsClient{c} },
		"containers": func() { b.Containers = containersClient{c} },
		"resize":     func() { b.Resize = resizeClient{c} },
		"files":      func() { b.Files = filesClient{c} },
		"refresh":    func() { b.Refresh = refreshClient{c} },
		"images":     func() { b.Images = imagesClient{c} },
		"store":      func() { b.Store = storeClient{c} },
		"events":     func() { b.Events = eventsClient{c} },
		"exec":       func() { b.Exec = execClient{c} },
		"attach":     func() { b.Attach = attachClient{c} },
		"forward":    func() { b.Forward = forwardClient{c} },
		"logs":       func() { b.Logs = logsClient{c} },
		"dial":       func() { b.Dial = dialClient{c} },
		"node":       func() { b.Node = nodeClient{c} },
		"stats":      func() { b.Stats = statsClient{c} },
	} {
		if slices.Contains(c.agreed.Fields, field) {
			lend()
		}
	}
	return b
}

type podsClient struct{ c *client }

// Launch makes an attempt of a pod.
func (p podsClient) Launch(ctx context.Context, spec backend.LaunchSpec) error {
	return p.c.invoke(ctx, podsLaunch, newLaunchRequest(spec), &none{})
}

// Stop asks for the end of an attempt.
func (p podsClient) Stop(ctx context.Context, ref backend.Ref, grace time.Duration) error {
	return p.c.invoke(ctx, podsStop, stopRequest{ref, grace}, &none{})
}

// Remove deletes an attempt.
func (p podsClient) Remove(ctx context.Context, ref backend.Ref) error {
	return p.c.invoke(ctx, podsRemove, ref, &none{})
}

// List returns all attempts of the node.
func (p podsClient) List(ctx context.Context) ([]backend.PodFacts, error) {
	var list podList
	if err := p.c.invoke(ctx, podsList, none{}, &list); err != nil {
		return nil, err
	}
	return list, nil
}

// Inspect returns the attempts of some pods.
func (p podsClient) Inspect(ctx context.Context, uids []types.UID) ([]backend.PodFacts, error) {
	var list podList
	if err := p.c.invoke(ctx, podsInspect, inspectRequest{uids}, &list); err != nil {
		return nil, err
	}
	return list, nil
}

type containersClient struct{ c *client }

// Start makes and starts a container.
func (p containersClient) Start(ctx context.Context, ref backend.Ref, spec backend.ContainerSpec) error {
	return p.c.invoke(ctx, containersStart, newStartRequest(ref, spec), &none{})
}

// Stop asks for the end of a container.
func (p containersClient) Stop(ctx context.Context, ref backend.ContainerRef, grace time.Duration) error {
	return p.c.invoke(ctx, containersStop, stopContainerRequest{ref, grace}, &none{})
}

// Remove deletes a dead container.
func (p containersClient) Remove(ctx context.Context, ref backend.ContainerRef) error {
	return p.c.invoke(ctx, containersRemove, ref, &none{})
}

type filesClient struct{ c *client }

// Place makes a volume.
func (f filesClient) Place(ctx context.Context, spec backend.VolumeSpec) error {
	return f.c.invoke(ctx, filesPlace, newPlaceRequest(spec), &none{})
}

// Clear removes the volumes of a pod.
func (f filesClient) Clear(ctx context.Context, ref backend.Ref) error {
	return f.c.invoke(ctx, filesClear, ref, &none{})
}

// Volumes lists what is placed.
func (f filesClient) Volumes(ctx context.Context) ([]backend.VolumeFacts, error) {
	var list volumeList
	if err := f.c.invoke(ctx, filesVolumes, none{}, &list); err != nil {
		return nil, err
	}
	return list, nil
}

type refreshClient struct{ c *client }

// Refresh gives an attempt the files of volumes.
func (r refreshClient) Refresh(ctx context.Context, ref backend.Ref, volumes []backend.VolumeSpec) error {
	return r.c.invoke(ctx, refreshRefresh, newRefreshRequest(ref, volumes), &none{})
}

type imagesClient struct{ c *client }

// Find returns the id of an image that is there.
func (i imagesClient) Find(ctx context.Context, image string) (string, error) {
	return i.id(ctx, imagesFind, imageRequest{Image: image})
}

// Pull fetches an image.
func (i imagesClient) Pull(ctx context.Context, image string, creds []backend.Credential) (string, error) {
	return i.id(ctx, imagesPull, imageRequest{image, creds})
}

func (i imagesClient) id(ctx context.Context, call string, in imageRequest) (string, error) {
	var id string
	if err := i.c.invoke(ctx, call, in, &id); err != nil {
		return "", err
	}
	return id, nil
}

type storeClient struct{ c *client }

// List returns every image that is there.
func (s storeClient) List(ctx context.Context) ([]backend.ImageFacts, error) {
	var facts []backend.ImageFacts
	if err := s.c.invoke(ctx, storeList, none{}, &facts); err != nil {
		return nil, err
	}
	return facts, nil
}

// Remove removes an image.
func (s storeClient) Remove(ctx context.Context, id string) error {
	return s.c.invoke(ctx, storeRemove, removeImageRequest{id}, &none{})
}

// Disk measures the file system of images.
func (s storeClient) Disk(ctx context.Context) (backend.FilesystemUsage, error) {
	var usage backend.FilesystemUsage
	if err := s.c.invoke(ctx, storeDisk, none{}, &usage); err != nil {
		return backend.FilesystemUsage{}, err
	}
	return usage, nil
}

type nodeClient struct{ c *client }

// Describe returns what the remote says of itself.
func (n nodeClient) Describe(ctx context.Context) (backend.NodeFacts, error) {
	var facts backend.NodeFacts
	if err := n.c.invoke(ctx, nodeDescribe, none{}, &facts); err != nil {
		return backend.NodeFacts{}, err
	}
	return facts, nil
}
