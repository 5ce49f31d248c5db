package fakecri

import (
	"context"
	"errors"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ImageStatus finds images by name and by id.
func (s *Server) ImageStatus(_ context.Context, r *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
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

// Auths are the credentials of all pulls.
func (s *Server) Auths() []*runtimeapi.AuthConfig {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*runtimeapi.AuthConfig(nil), s.auths...)
}
