package events

import (
	"testing"

	containerdtypes "github.com/containerd/containerd/api/types"
	"google.golang.org/protobuf/types/known/anypb"
)

func FuzzDecode(f *testing.F) {
	f.Add("/tasks/exit", []byte("\x0a\x01a\x12\x01a\x18\x05"))
	f.Add("/tasks/start", []byte("\x0a\xff"))
	f.Fuzz(func(t *testing.T, topic string, value []byte) {
		id, exit, err := decode(&containerdtypes.Envelope{Topic: topic, Event: &anypb.Any{Value: value}})
		if err != nil && (id != "" || exit) {
			t.Errorf("%q, %v beside %v", id, exit, err)
		}
	})
}
