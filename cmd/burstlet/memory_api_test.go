package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

// memoryAPI is an API server as a client's transport: without a network, so that it
// works in virtual time. It has pods and one node, whose lists may be watched; all
// other lists are empty for ever, and what else is written is taken and forgotten.
type memoryAPI struct {
	mu      sync.Mutex
	node    string
	version int
	objects map[string]runtime.Object // by path
	writes  map[string]int            // by method and path
	watches map[*io.PipeWriter]string // the path of what they watch
}

func newMemoryAPI(node string) *memoryAPI {
	return &memoryAPI{
		node: node, objects: map[string]runtime.Object{}, writes: map[string]int{}, watches: map[*io.PipeWriter]string{},
	}
}

const (
	podsPath  = "/api/v1/pods"
	nodesPath = "/api/v1/nodes"
)

func podPath(name string) string { return "/api/v1/namespaces/ns/pods/" + name }

// put makes or replaces a pod of namespace ns.
func (a *memoryAPI) put(pod *corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.store(podPath(pod.Name), pod)
}

// pod is nil for one that there is not.
func (a *memoryAPI) pod(name string) *corev1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	pod, _ := a.objects[podPath(name)].(*corev1.Pod)
	return pod
}

// written counts the requests so far that may change something.
func (a *memoryAPI) written() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.writes)
}

// RoundTrip answers a request.
func (a *memoryAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		if err := r.Body.Close(); err != nil {
			return nil, err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Method == http.MethodGet {
		return a.read(r), nil
	}
	a.writes[r.Method+" "+r.URL.Path]++
	return a.write(r.Method, r.URL.Path, body), nil
}

func (a *memoryAPI) read(r *http.Request) *http.Response {
	query := r.URL.Query()
	if query.Get("sendInitialEvents") == "true" { // then it lists
		return refuse(apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil))
	}
	if query.Get("watch") == "true" || query.Get("watch") == "1" {
		return a.watch(r.Context(), r.URL.Path)
	}
	if obj := a.objects[r.URL.Path]; obj != nil {
		return answer(obj)
	}
	var items []runtime.Object
	switch r.URL.Path {
	case podsPath:
		for _, obj := range a.objects {
			if _, ok := obj.(*corev1.Pod); ok {
				items = append(items, obj)
			}
		}
	case nodesPath:
		if obj := a.objects[nodesPath+"/"+a.node]; obj != nil {
			items = append(items, obj)
		}
	default:
		if query.Get("limit") == "" && query.Get("resourceVersion") == "" {
			return refuse(apierrors.NewNotFound(schema.GroupResource{Resource: "objects"}, path.Base(r.URL.Path)))
		}
	}
	// Without a kind it is taken for what was asked for.
	return answer(
		map[string]any{"metadata": map[string]any{"resourceVersion": strconv.Itoa(a.version + 1)}, "items": items},
	)
}

func (a *memoryAPI) watch(ctx context.Context, of string) *http.Response {
	body, events := io.Pipe()
	a.watches[events] = of
	context.AfterFunc(ctx, func() {
		_ = events.CloseWithError(ctx.Err()) // a pipe's is always nil
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.watches, events)
	})
	return respond(http.StatusOK, body)
}

func (a *memoryAPI) write(method, of string, body []byte) *http.Response {
	of = strings.TrimSuffix(of, "/status")
	was := a.objects[of]
	switch {
	case method == http.MethodDelete && was != nil:
		a.drop(of, was)
		return answer(
			metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess},
		)
	case method == http.MethodDelete, method == http.MethodPatch && was == nil:
		return refuse(apierrors.NewNotFound(schema.GroupResource{Resource: "objects"}, path.Base(of)))
	case method == http.MethodPatch:
		obj, err := patched(was, body)
		if err != nil {
			return refuse(apierrors.NewBadRequest(err.Error()))
		}
		a.store(of, obj)
		return answer(obj)
	}
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return refuse(apierrors.NewBadRequest(err.Error()))
	}
	if node, ok := obj.(*corev1.Node); ok {
		node.UID = types.UID(node.Name)
		a.store(nodesPath+"/"+node.Name, node)
	}
	return answer(obj)
}

func patched(was runtime.Object, patch []byte) (runtime.Object, error) {
	data, err := json.Marshal(was)
	if err != nil {
		return nil, err
	}
	if data, err = strategicpatch.StrategicMergePatch(data, patch, was); err != nil {
		return nil, err
	}
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
	return obj, err
}

// store keeps an object and tells who watches it.
func (a *memoryAPI) store(of string, obj runtime.Object) {
	kind := "ADDED"
	if a.objects[of] != nil {
		kind = "MODIFIED"
	}
	a.version++
	if m, err := meta.Accessor(obj); err == nil {
		m.SetResourceVersion(strconv.Itoa(a.version))
	}
	if kinds, _, err := scheme.Scheme.ObjectKinds(obj); err == nil {
		obj.GetObjectKind().SetGroupVersionKind(kinds[0])
	}
	a.objects[of] = obj
	a.tell(kind, obj)
}

func (a *memoryAPI) drop(of string, was runtime.Object) {
	delete(a.objects, of)
	a.version++
	a.tell("DELETED", was)
}

func (a *memoryAPI) tell(kind string, obj runtime.Object) {
	list := podsPath
	if _, ok := obj.(*corev1.Node); ok {
		list = nodesPath
	}
	event, err := json.Marshal(map[string]any{"type": kind, "object": obj})
	if err != nil {
		panic(fmt.Sprintf("encode an event: %v", err)) // of a test's own object
	}
	for w, of := range a.watches {
		if of == list {
			_, _ = w.Write(event) // who does not read any more has closed it
		}
	}
}

func answer(v any) *http.Response {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode an answer: %v", err)) // of a test's own object
	}
	return respond(http.StatusOK, io.NopCloser(bytes.NewReader(data)))
}

func refuse(err *apierrors.StatusError) *http.Response {
	status := err.ErrStatus
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	resp := answer(status)
	resp.StatusCode = int(status.Code)
	return resp
}

func respond(code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body,
	}
}
