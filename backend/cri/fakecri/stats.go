package fakecri

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// SandboxPID is the process of every sandbox.
	SandboxPID = 4242
	// ImagesPath is where images are kept.
	ImagesPath = "/var/lib/fake/images"
	// What every container uses: a tenth of a processor, and bytes.
	usedCores, usedMemory, usedLayer = 0.1, 1 << 20, 4096
)

// ListContainerStats honours the label selector. As containerd does it names
// containers that do not run, without numbers.
func (s *Server) ListContainerStats(
	_ context.Context, r *runtimeapi.ListContainerStatsRequest,
) (*runtimeapi.ListContainerStatsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	reply := &runtimeapi.ListContainerStatsResponse{}
	for _, c := range s.containers {
		if !selects(r.GetFilter().GetLabelSelector(), c.config.GetLabels()) {
			continue
		}
		one := &runtimeapi.ContainerStats{
			Attributes: &runtimeapi.ContainerAttributes{
				Id: c.id, Metadata: c.config.GetMetadata(), Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(),
			},
			WritableLayer: &runtimeapi.FilesystemUsage{
				Timestamp: now.UnixNano(), FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: ImagesPath},
				UsedBytes: &runtimeapi.UInt64Value{Value: usedLayer}, InodesUsed: &runtimeapi.UInt64Value{Value: 1},
			},
		}
		if c.state == runtimeapi.ContainerState_CONTAINER_RUNNING {
			one.Cpu = &runtimeapi.CpuUsage{
				Timestamp:            now.UnixNano(),
				UsageCoreNanoSeconds: &runtimeapi.UInt64Value{Value: uint64(float64(now.Sub(c.started)) * usedCores)},
			}
			one.Memory = &runtimeapi.MemoryUsage{
				Timestamp: now.UnixNano(), WorkingSetBytes: &runtimeapi.UInt64Value{Value: usedMemory},
			}
		}
		if s.Measured != nil {
			s.Measured(one)
		}
		reply.Stats = append(reply.Stats, one)
	}
	return reply, nil
}

// ImageFsInfo names the file system of images.
func (s *Server) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{
		{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: ImagesPath}},
	}}, nil
}
