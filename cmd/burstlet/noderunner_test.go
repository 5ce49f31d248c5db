package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

// TestNodeExists: whoever makes the election's Lease anew asks for the Node with the node's
// credential, and takes no failure for an answer.
func TestNodeExists(t *testing.T) {
	for code, want := range map[int]struct{ exists, fails bool }{
		http.StatusOK: {true, false}, http.StatusNotFound: {false, false},
		http.StatusForbidden: {false, true}, http.StatusInternalServerError: {false, true},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/api/v1/nodes/n1" {
				t.Errorf("asked for %s", r.URL.Path)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			text := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"` + map[int]string{
				http.StatusNotFound: "NotFound", http.StatusForbidden: "Forbidden", http.StatusInternalServerError: "InternalError",
			}[code] + `"}`
			if code == http.StatusOK {
				text = `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1"}}`
			}
			if _, err := w.Write([]byte(text)); err != nil {
				t.Error(err)
			}
		}))
		exists, err := nodeExists(&rest.Config{Host: server.URL}, "n1")(t.Context())
		server.Close()
		if exists != want.exists || err != nil != want.fails {
			t.Errorf("%d: %v, %v", code, exists, err)
		}
	}
}
