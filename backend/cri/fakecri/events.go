package fakecri

import (
	eventsapi "github.com/containerd/containerd/api/services/events/v1"
	containerdtypes "github.com/containerd/containerd/api/types"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Subscribe streams what Emit is told.
func (s *Server) Subscribe(_ *eventsapi.SubscribeRequest, stream eventsapi.Events_SubscribeServer) error {
	ch := make(chan *containerdtypes.Envelope, 16)
	s.mu.Lock()
	s.streams[ch] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.streams, ch)
		s.mu.Unlock()
	}()
	for {
		select {
		case e := <-ch:
			if err := stream.Send(e); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// Subscribers is how many streams are open.
func (s *Server) Subscribers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

// Emit sends an event about a container: the id, and for an exit the process.
func (s *Server) Emit(topic, containerID, process string) {
	var value []byte
	for field, text := range []string{containerID, process} {
		if text != "" {
			value = protowire.AppendTag(value, protowire.Number(field+1), protowire.BytesType)
			value = protowire.AppendString(value, text)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for ch := range s.streams {
		ch <- &containerdtypes.Envelope{
			Namespace: "k8s.io", Topic: topic, Event: &anypb.Any{TypeUrl: "containerd.events.Task", Value: value},
		}
	}
}

// GetContainerEvents streams CRIEvents.
func (s *Server) GetContainerEvents(
	_ *runtimeapi.GetEventsRequest, stream runtimeapi.RuntimeService_GetContainerEventsServer,
) error {
	if s.CRIEvents == nil {
		return status.Error(codes.Unimplemented, "method GetContainerEvents not implemented")
	}
	for {
		select {
		case e := <-s.CRIEvents:
			if err := stream.Send(e); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}
