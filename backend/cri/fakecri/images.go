package fakecri

import (
	"context"
	"errors"
	"maps"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ImageStatus finds images by name and by id.
func (s *Server) ImageStatus(
	_ context.Context, r *runtimeapi.ImageStatusRequest,
) (*runtimeapi.ImageStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := r.GetImage().GetImage()
	for name, id := range s.images {
		if asked != name && asked != id {
			continue
		}
		image := &runtimeapi.Image{Id: id, RepoTags: []string{name}, Size: 1 << 20}
		if u := s.Users[name]; u != nil {
			image.Uid, image.Username = u.GetUid(), u.GetUsername()
		}
		return &runtimeapi.ImageStatusResponse{Image: image}, nil
	}
	return &runtimeapi.ImageStatusResponse{}, nil
}

// PullImage has every image that no registry refuses.
func (s *Server) PullImage(_ context.Context, r *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := r.GetImage().GetImage()
	s.auths = append(s.auths, r.GetAuth())
	if refused := s.Refused[name]; refused != "" && r.GetAuth().GetPassword() != "right" {
		return nil, errors.New(refused)
	}
	s.images[name] = "sha256:" + name
	return &runtimeapi.PullImageResponse{ImageRef: s.images[name]}, nil
}

// ListImages tells of every image.
func (s *Server) ListImages(context.Context, *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &runtimeapi.ListImagesResponse{}
	for name, id := range s.images {
		out.Images = append(out.Images, &runtimeapi.Image{Id: id, RepoTags: []string{name}, Size: 1 << 20})
	}
	return out, nil
}

// RemoveImage forgets an image, used or not, as containerd does.
func (s *Server) RemoveImage(
	_ context.Context, r *runtimeapi.RemoveImageRequest,
) (*runtimeapi.RemoveImageResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.images, func(name, id string) bool {
		return id == r.GetImage().GetImage() ||
			name == r.GetImage().GetImage()
	})
	return &runtimeapi.RemoveImageResponse{}, nil
}

// Auths are the credentials of all pulls.
func (s *Server) Auths() []*runtimeapi.AuthConfig {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*runtimeapi.AuthConfig(nil), s.auths...)
}
