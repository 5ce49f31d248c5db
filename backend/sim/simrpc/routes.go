package simrpc

import (
	"context"

	"github.com/burstlet/burstlet/backend"
)

// routes are the calls of the contract.
func routes() map[string]handlerFunc {
	return map[string]handlerFunc{
		podsLaunch: action(func(ctx context.Context, b backend.Backend, in launchRequest) error {
			return b.Pods.Launch(ctx, in.spec())
		}),
		podsStop: action(func(ctx context.Context, b backend.Backend, in stopRequest) error {
			return b.Pods.Stop(ctx, in.Ref, in.Grace)
		}),
		podsRemove: action(func(ctx context.Context, b backend.Backend, in backend.Ref) error {
			return b.Pods.Remove(ctx, in)
		}),
		podsList: unary(func(ctx context.Context, b backend.Backend, _ none) (podList, error) {
			return b.Pods.List(ctx)
		}),
		podsInspect: unary(func(ctx context.Context, b backend.Backend, in inspectRequest) (podList, error) {
			return b.Pods.Inspect(ctx, in.UIDs)
		}),

		containersStart: action(func(ctx context.Context, b backend.Backend, in startRequest) error {
			return b.Containers.Start(ctx, in.Ref, in.spec())
		}),
		containersStop: action(func(ctx context.Context, b backend.Backend, in stopContainerRequest) error {
			return b.Containers.Stop(ctx, in.Ref, in.Grace)
		}),
		containersRemove: action(func(ctx context.Context, b backend.Backend, in backend.ContainerRef) error {
			return b.Containers.Remove(ctx, in)
		}),

		resizeResize: action(func(ctx context.Context, b backend.Backend, in resizeRequest) error {
			return b.Resize.Resize(ctx, in.Ref, in.spec())
		}),

		filesPlace: action(func(ctx context.Context, b backend.Backend, in placeRequest) error {
			return b.Files.Place(ctx, in.spec())
		}),
		filesClear: action(func(ctx context.Context, b backend.Backend, in backend.Ref) error {
			return b.Files.Clear(ctx, in)
		}),
		filesVolumes: unary(func(ctx context.Context, b backend.Backend, _ none) (volumeList, error) {
			return b.Files.Volumes(ctx)
		}),

		refreshRefresh: action(func(ctx context.Context, b backend.Backend, in refreshRequest) error {
			return b.Refresh.Refresh(ctx, in.Ref, in.volumes())
		}),

		imagesFind: unary(func(ctx context.Context, b backend.Backend, in imageRequest) (string, error) {
			return b.Images.Find(ctx, in.Image)
		}),
		imagesPull: unary(func(ctx context.Context, b backend.Backend, in imageRequest) (string, error) {
			return b.Images.Pull(ctx, in.Image, in.Creds)
		}),
		storeList: unary(func(ctx context.Context, b backend.Backend, _ none) ([]backend.ImageFacts, error) {
			return b.Store.List(ctx)
		}),
		storeRemove: action(func(ctx context.Context, b backend.Backend, in removeImageRequest) error {
			return b.Store.Remove(ctx, in.ID)
		}),
		storeDisk: unary(func(ctx context.Context, b backend.Backend, _ none) (backend.FilesystemUsage, error) {
			return b.Store.Disk(ctx)
		}),

		nodeDescribe: unary(func(ctx context.Context, b backend.Backend, _ none) (backend.NodeFacts, error) {
			return b.Node.Describe(ctx)
		}),
		statsStats: unary(func(ctx context.Context, b backend.Backend, _ none) (backend.StatsFacts, error) {
			return b.Stats.Stats(ctx)
		}),

		eventsRun:      serveEvents,
		logsOpen:       serveLogs,
		execExec:       serveExec,
		attachAttach:   serveAttach,
		dialDial:       serveDial,
		forwardForward: serveForward,
	}
}
