package metered_test

import (
	"context"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/metered"
)

// answer is how every call of a fake ends, after how long.
type answer struct {
	err  error
	took time.Duration
}

func (a *answer) do() error {
	time.Sleep(a.took)
	return a.err
}

type (
	fakePods       struct{ *answer }
	fakeContainers struct{ *answer }
	fakeFiles      struct{ *answer }
	fakeResizer    struct{ *answer }
	fakeStore      struct{ *answer }
	fakeOthers     struct{ *answer }
)

func (p fakePods) Launch(context.Context, backend.LaunchSpec) error       { return p.do() }
func (p fakePods) Stop(context.Context, backend.Ref, time.Duration) error { return p.do() }
func (p fakePods) Remove(context.Context, backend.Ref) error              { return p.do() }
func (p fakePods) List(context.Context) ([]backend.PodFacts, error)       { return nil, p.do() }
func (p fakePods) Inspect(context.Context, []types.UID) ([]backend.PodFacts, error) {
	return nil, p.do()
}

func (c fakeContainers) Start(context.Context, backend.Ref, backend.ContainerSpec) error {
	return c.do()
}

func (c fakeContainers) Stop(context.Context, backend.ContainerRef, time.Duration) error {
	return c.do()
}
func (c fakeContainers) Remove(context.Context, backend.ContainerRef) error { return c.do() }

func (f fakeFiles) Place(context.Context, backend.VolumeSpec) error { return f.do() }

func (o fakeOthers) Refresh(context.Context, backend.Ref, []backend.VolumeSpec) error { return o.do() }

func (f fakeFiles) Clear(context.Context, backend.Ref) error               { return f.do() }
func (f fakeFiles) Volumes(context.Context) ([]backend.VolumeFacts, error) { return nil, f.do() }

func (r fakeResizer) Resize(context.Context, backend.ContainerRef, backend.ContainerSpec) error {
	return r.do()
}
func (s fakeStore) List(context.Context) ([]backend.ImageFacts, error) { return nil, s.do() }
func (s fakeStore) Remove(context.Context, string) error               { return s.do() }
func (s fakeStore) Disk(context.Context) (backend.FilesystemUsage, error) {
	return backend.FilesystemUsage{}, s.do()
}

func (o fakeOthers) Find(context.Context, string) (string, error) { return "id", o.do() }
func (o fakeOthers) Pull(context.Context, string, []backend.Credential) (string, error) {
	return "id", o.do()
}
func (o fakeOthers) Run(context.Context, chan<- types.UID) error { return o.do() }
func (o fakeOthers) Exec(context.Context, backend.ContainerRef, backend.ExecSpec) (int32, error) {
	return 3, o.do()
}

func (o fakeOthers) Attach(context.Context, backend.ContainerRef, backend.AttachSpec) error {
	return o.do()
}

func (o fakeOthers) Forward(context.Context, backend.Ref, uint16) (net.Conn, error) {
	return nil, o.do()
}

func (o fakeOthers) Open(context.Context, backend.ContainerRef, backend.LogOptions) (io.ReadCloser, error) {
	return nil, o.do()
}

func (o fakeOthers) Dial(context.Context, backend.Ref, string) (net.Conn, error) { return nil, o.do() }

func (o fakeOthers) Stats(context.Context) (backend.StatsFacts, error) {
	return backend.StatsFacts{}, o.do()
}

func (o fakeOthers) Describe(context.Context) (backend.NodeFacts, error) {
	return backend.NodeFacts{}, o.do()
}

func full(a *answer) backend.Backend {
	o := fakeOthers{a}
	return backend.Backend{
		Name: "fake", Pods: fakePods{a}, Containers: fakeContainers{a}, Resize: fakeResizer{a}, Files: fakeFiles{a}, Refresh: o, Images: o, Store: fakeStore{a}, Events: o, Exec: o,
		Attach: o, Forward: o, Logs: o, Dial: o, Stats: o, Node: o,
		Check: backend.CheckFunc(func(*corev1.Pod) []backend.Refusal { return nil }),
	}
}

// calls are all of the contract, by operation.
func calls(b backend.Backend) map[string]func(context.Context) error {
	ref, c := backend.Ref{}, backend.ContainerRef{}
	return map[string]func(context.Context) error{
		"run_podsandbox":        func(ctx context.Context) error { return b.Pods.Launch(ctx, backend.LaunchSpec{}) },
		"stop_podsandbox":       func(ctx context.Context) error { return b.Pods.Stop(ctx, ref, 0) },
		"remove_podsandbox":     func(ctx context.Context) error { return b.Pods.Remove(ctx, ref) },
		"list_podsandbox":       func(ctx context.Context) error { _, err := b.Pods.List(ctx); return err },
		"podsandbox_status":     func(ctx context.Context) error { _, err := b.Pods.Inspect(ctx, nil); return err },
		"start_container":       func(ctx context.Context) error { return b.Containers.Start(ctx, ref, backend.ContainerSpec{}) },
		"stop_container":        func(ctx context.Context) error { return b.Containers.Stop(ctx, c, 0) },
		"remove_container":      func(ctx context.Context) error { return b.Containers.Remove(ctx, c) },
		"update_container":      func(ctx context.Context) error { return b.Resize.Resize(ctx, c, backend.ContainerSpec{}) },
		"place_volume":          func(ctx context.Context) error { return b.Files.Place(ctx, backend.VolumeSpec{}) },
		"clear_volumes":         func(ctx context.Context) error { return b.Files.Clear(ctx, ref) },
		"refresh_volumes":       func(ctx context.Context) error { return b.Refresh.Refresh(ctx, ref, nil) },
		"list_volumes":          func(ctx context.Context) error { _, err := b.Files.Volumes(ctx); return err },
		"image_status":          func(ctx context.Context) error { _, err := b.Images.Find(ctx, ""); return err },
		"pull_image":            func(ctx context.Context) error { _, err := b.Images.Pull(ctx, "", nil); return err },
		"list_images":           func(ctx context.Context) error { _, err := b.Store.List(ctx); return err },
		"remove_image":          func(ctx context.Context) error { return b.Store.Remove(ctx, "") },
		"image_fs_info":         func(ctx context.Context) error { _, err := b.Store.Disk(ctx); return err },
		"container_events":      func(ctx context.Context) error { return b.Events.Run(ctx, nil) },
		"exec":                  func(ctx context.Context) error { _, err := b.Exec.Exec(ctx, c, backend.ExecSpec{}); return err },
		"attach":                func(ctx context.Context) error { return b.Attach.Attach(ctx, c, backend.AttachSpec{}) },
		"port_forward":          func(ctx context.Context) error { _, err := b.Forward.Forward(ctx, ref, 1); return err },
		"open_log":              func(ctx context.Context) error { _, err := b.Logs.Open(ctx, c, backend.LogOptions{}); return err },
		"dial":                  func(ctx context.Context) error { _, err := b.Dial.Dial(ctx, ref, ""); return err },
		"list_podsandbox_stats": func(ctx context.Context) error { _, err := b.Stats.Stats(ctx); return err },
		"status":                func(ctx context.Context) error { _, err := b.Node.Describe(ctx); return err },
	}
}

// methods is how many the fields of the contract have that call the remote.
func methods(b backend.Backend) int {
	n := 0
	v := reflect.ValueOf(b)
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.Type.Kind() == reflect.Interface && f.Name != "Check" {
			n += f.Type.NumMethod()
		}
	}
	return n
}

// TestEveryCallIsCounted: no method of the contract is left out, and each has a
// name of its own.
func TestEveryCallIsCounted(t *testing.T) {
	a := &answer{err: backend.Errorf(backend.ErrThrottled, "slower")}
	reg := prometheus.NewRegistry()
	m, err := metered.NewMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	b := metered.Wrap(full(a), m)
	all := calls(b)
	if got := methods(b); got != len(all) {
		t.Errorf("%d calls are tested, the contract has %d", len(all), got)
	}
	for op, call := range all {
		if err := call(t.Context()); !errors.Is(err, backend.ErrThrottled) {
			t.Errorf("%s: error %v, want the backend's own", op, err)
		}
	}
	for _, name := range []string{"kubelet_runtime_operations_total", "kubelet_runtime_operations_errors_total", "kubelet_runtime_operations_duration_seconds", "burstlet_backend_errors_total"} {
		if got, err := testutil.GatherAndCount(reg, name); err != nil || got != len(all) {
			t.Errorf("%s has %d series, want %d (%v)", name, got, len(all), err)
		}
	}
}

func TestNilFieldsStayNil(t *testing.T) {
	m, err := metered.NewMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	v := reflect.ValueOf(metered.Wrap(backend.Backend{}, m))
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Interface && !f.IsNil() {
			t.Errorf("%s is lent", v.Type().Field(i).Name)
		}
	}
}

func TestWhatCountsAsError(t *testing.T) {
	notFound := backend.Errorf(backend.ErrNotFound, "none")
	for _, tt := range []struct {
		name string
		gone bool // the caller went away
		op   string
		err  error
		want string // the class; "" is no error
	}{
		{"success", false, "run_podsandbox", nil, ""},
		{"no class", false, "run_podsandbox", io.ErrUnexpectedEOF, "Transient"},
		{"unavailable", false, "list_podsandbox", backend.Errorf(backend.ErrUnavailable, "down"), "Unavailable"},
		{"the proof that nothing is left", false, "remove_podsandbox", notFound, ""},
		{"an image that is to be pulled", false, "image_status", notFound, ""},
		{"a container that is not there", false, "exec", notFound, "NotFound"},
		{"a caller that went away", true, "exec", context.Canceled, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := &answer{err: tt.err}
			reg := prometheus.NewPedanticRegistry()
			m, err := metered.NewMetrics(reg)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.gone {
				cancel()
			}
			if err := calls(metered.Wrap(full(a), m))[tt.op](ctx); !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			want := ""
			if tt.want != "" {
				want = `
# HELP burstlet_backend_errors_total Cumulative number of runtime operation errors by operation type and class of the error.
# TYPE burstlet_backend_errors_total counter
burstlet_backend_errors_total{class="` + tt.want + `",operation_type="` + tt.op + `"} 1
# HELP kubelet_runtime_operations_errors_total Cumulative number of runtime operation errors by operation type.
# TYPE kubelet_runtime_operations_errors_total counter
kubelet_runtime_operations_errors_total{operation_type="` + tt.op + `"} 1
`
			}
			if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "burstlet_backend_errors_total", "kubelet_runtime_operations_errors_total"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCallsAreTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answer{took: 3 * time.Second}
		reg := prometheus.NewRegistry()
		m, err := metered.NewMetrics(reg)
		if err != nil {
			t.Fatal(err)
		}
		b := metered.Wrap(full(a), m)
		if err := b.Pods.Launch(t.Context(), backend.LaunchSpec{}); err != nil {
			t.Fatal(err)
		}
		if code, err := b.Exec.Exec(t.Context(), backend.ContainerRef{}, backend.ExecSpec{}); code != 3 || err != nil {
			t.Errorf("exec: %d, %v", code, err)
		}
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			if f.GetName() != "kubelet_runtime_operations_duration_seconds" {
				continue
			}
			for _, metric := range f.GetMetric() {
				got[metric.GetLabel()[0].GetValue()] = metric.GetHistogram().GetSampleSum()
			}
		}
		if diff := cmp.Diff(map[string]float64{"run_podsandbox": 3, "exec": 3}, got); diff != "" {
			t.Errorf("seconds (-want +got):\n%s", diff)
		}
	})
}

func TestRegisteringTwiceIsAnError(t *testing.T) {
	reg := prometheus.NewRegistry()
	if _, err := metered.NewMetrics(reg); err != nil {
		t.Fatal(err)
	}
	if _, err := metered.NewMetrics(reg); err == nil {
		t.Error("no error")
	}
}

func TestStorageOperations(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m, err := metered.NewMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	a := &answer{}
	b := metered.Wrap(full(a), m)
	secret := backend.VolumeSpec{Source: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}}
	if err := errors.Join(b.Files.Place(t.Context(), secret), b.Files.Clear(t.Context(), backend.Ref{})); err != nil {
		t.Fatal(err)
	}
	a.err = backend.Errorf(backend.ErrNotFound, "none left")
	if err := b.Files.Clear(t.Context(), backend.Ref{}); !errors.Is(err, backend.ErrNotFound) {
		t.Fatal(err)
	}
	a.err = io.ErrUnexpectedEOF
	if err := b.Files.Place(t.Context(), secret); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, f := range families {
		if f.GetName() != "storage_operation_duration_seconds" {
			continue
		}
		for _, metric := range f.Metric {
			var words []string
			for _, l := range metric.Label {
				words = append(words, l.GetName()+"="+l.GetValue())
			}
			got[strings.Join(words, " ")] = metric.Histogram.GetSampleCount()
		}
	}
	want := map[string]uint64{
		"migrated=false operation_name=volume_mount status=success volume_plugin=kubernetes.io/secret":      1,
		"migrated=false operation_name=volume_mount status=fail-unknown volume_plugin=kubernetes.io/secret": 1,
		"migrated=false operation_name=volume_unmount status=success volume_plugin=":                        2,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
