package kubeletapi

import (
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/burstlet/burstlet/backend"
)

// TestRefusedUpgradeAsOlderServersReadIt: API servers up to 1.35 decode what refuses a stream as a
// Status, in YAML too: a text with one colon would be one that says nothing, and kubectl
// then "unknown error". See UniversalDecoder in util/httpstream/spdy/roundtripper.go there.
func TestRefusedUpgradeAsOlderServersReadIt(t *testing.T) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	scheme.AddUnversionedTypes(metav1.SchemeGroupVersion, &metav1.Status{})
	decoder := serializer.NewCodecFactory(scheme).UniversalDecoder()
	err := backend.Errorf(backend.ErrNotFound, "container not found (%q): it is not running", "app")
	for _, upgrade := range []string{"SPDY/3.1", "websocket"} {
		r := httptest.NewRequest(http.MethodPost, "/exec/ns/p/app", nil)
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", upgrade)
		w := httptest.NewRecorder()
		fail(w, r, err)
		got, _, decodeErr := decoder.Decode(w.Body.Bytes(), nil, &metav1.Status{})
		status, ok := got.(*metav1.Status)
		if decodeErr != nil || !ok || w.Code != http.StatusNotFound {
			t.Fatalf("%s: answered %d %q: %v", upgrade, w.Code, w.Body, decodeErr)
		}
		if status.Status != metav1.StatusFailure || status.Message != err.Error() || status.Code != http.StatusNotFound {
			t.Errorf("%s: read as %+v", upgrade, status)
		}
	}
}
