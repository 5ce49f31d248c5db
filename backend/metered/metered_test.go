package metered_test

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/intercept"
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

// full lends all of the contract.
func full(a *answer) backend.Backend {
	var fields []string
	for _, m := range intercept.Methods() {
		fields = append(fields, m.Name.Field())
	}
	b := intercept.Lend(fields, func(_ context.Context, c *intercept.Call, _ func(context.Context) error) error {
		if code, ok := c.Reply.(*int32); ok {
			*code = 3 // an exit code of exec
		}
		return a.do()
	})
	b.Name = "fake"
	return b
}

// calls are all of the contract that the remote answers, by operation.
func calls(b backend.Backend) map[string]func(context.Context) error {
	all := map[string]func(context.Context) error{}
	for _, m := range intercept.Methods() {
		if m.Kind == intercept.Local || m.Kind == intercept.Background {
			continue
		}
		all[m.Operation] = func(ctx context.Context) error {
			_, err := intercept.Invoke(ctx, b, m.Name, func([]any) error { return nil })
			return err
		}
	}
	return all
}

// methods is how many the fields of the contract have that call the remote, with Sweep and
// Confirm.
func methods(b backend.Backend) int {
	n := 2
	v := reflect.ValueOf(b)
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.Type.Kind() == reflect.Interface && f.Name != "Check" {
			n += f.Type.NumMethod()
		}
	}
	return n
}

// published are the operations of which dashboards and alerts may be made.
var published = []string{
	"run_podsandbox", "stop_podsandbox", "remove_podsandbox", "list_podsandbox", "podsandbox_status", "start_container",
	"stop_container", "remove_container", "update_container", "place_volume", "clear_volumes", "refresh_volumes",
	"list_volumes", "image_status", "pull_image", "list_images", "remove_image", "image_fs_info", "container_events",
	"exec", "attach", "port_forward", "open_log", "dial", "list_podsandbox_stats", "status",
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
	for _, op := range published {
		if all[op] == nil {
			t.Errorf("no call is operation %s", op)
		}
	}
	for op, call := range all {
		if err := call(t.Context()); !errors.Is(err, backend.ErrThrottled) {
			t.Errorf("%s: error %v, want the backend's own", op, err)
		}
	}
	for _, name := range []string{
		"kubelet_runtime_operations_total", "kubelet_runtime_operations_errors_total",
		"kubelet_runtime_operations_duration_seconds", "burstlet_backend_errors_total",
	} {
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
			if err := testutil.GatherAndCompare(
				reg, strings.NewReader(want), "burstlet_backend_errors_total", "kubelet_runtime_operations_errors_total",
			); err != nil {
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
		if err := b.Pods.Launch(t.Context(), t.Context(), backend.LaunchSpec{}); err != nil {
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
