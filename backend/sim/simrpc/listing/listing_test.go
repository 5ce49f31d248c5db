package listing

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/test/kit/filled"
)

// TestListingCutShort: a part of a listing is an error, never a shorter listing.
func TestListingCutShort(t *testing.T) {
	data, err := Pods(aListing(t)).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	for n := range data {
		var l Pods
		if err := l.UnmarshalBinary(data[:n]); err == nil {
			t.Errorf("%d of %d bytes are a listing", n, len(data))
		}
	}
	var l Pods
	if err := l.UnmarshalBinary(append(data, 0)); err == nil {
		t.Error("a listing and a byte are a listing")
	}
}

// FuzzListing: whatever comes, reading ends without a panic, and what can be
// read is read again from what it is written as.
func FuzzListing(f *testing.F) {
	data, err := Pods(aListing(f)).MarshalBinary()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte{})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		var l, again Pods
		if l.UnmarshalBinary(data) != nil {
			return
		}
		written, err := l.MarshalBinary()
		if err == nil {
			err = again.UnmarshalBinary(written)
		}
		if diff := cmp.Diff(l, again); err != nil || diff != "" {
			t.Errorf("%v (-first +again):\n%s", err, diff)
		}
	})
}

// aListing is one of pods with all that facts can have.
func aListing(t testing.TB) []backend.PodFacts {
	return filled.Of[[]backend.PodFacts](t, func(v reflect.Value) bool {
		if _, is := v.Interface().(corev1.ResourceList); is {
			v.Set(reflect.ValueOf(corev1.ResourceList{"cpu": resource.MustParse("1500m")}))
			return true
		}
		return false
	})
}
