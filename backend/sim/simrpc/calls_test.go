package simrpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/intercept"
	"github.com/burstlet/burstlet/test/kit/filled"
)

// fullOf is a value with something in every field, so that a field which the wire forgets shows.
func fullOf[T any](t testing.TB) T {
	t.Helper()
	return filled.Of[T](t, kubernetesOwn)
}

// kubernetesOwn fills in what is Kubernetes' and has rules of its own.
func kubernetesOwn(v reflect.Value) bool {
	switch v.Interface().(type) {
	case *corev1.Pod:
		v.Set(reflect.ValueOf(aPod()))
	case corev1.Container:
		v.Set(reflect.ValueOf(aPod().Spec.Containers[0]))
	case corev1.VolumeSource:
		limit := new(resource.MustParse("1Gi"))
		v.Set(reflect.ValueOf(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: limit}}))
	case corev1.ResourceList:
		v.Set(reflect.ValueOf(corev1.ResourceList{"cpu": resource.MustParse("1500m")}))
	default:
		return false
	}
	return true
}

func aPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			UID: "u", Namespace: "ns", Name: "p", Labels: map[string]string{"a": "b"},
			CreationTimestamp: metav1.Unix(1700000000, 0),
		},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []corev1.Container{{
				Name: "c", Image: "i", Command: []string{"sh", "-c", "x"},
				Env:       []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: "EMPTY"}},
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("64Mi")}},
			}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
}

// TestCallsArriveWhole: every argument and every answer of the unary calls, each
// field of it, is the same at the other side.
func TestCallsArriveWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{
			pods: fullOf[[]backend.PodFacts](t), vols: fullOf[[]backend.VolumeFacts](t), facts: fullOf[backend.NodeFacts](t),
			kept: fullOf[[]backend.ImageFacts](t), disk: fullOf[backend.FilesystemUsage](t),
		}
		b := serve(t, f.backend).running("node")
		ctx := t.Context()
		ref, cref := fullOf[backend.Ref](t), fullOf[backend.ContainerRef](t)
		launch, start, place := fullOf[backend.LaunchSpec](t), fullOf[backend.ContainerSpec](t), fullOf[backend.VolumeSpec](t)
		uids, creds, file := []types.UID{"a", "b"}, fullOf[[]backend.Credential](t), fullOf[backend.VolumeFile](t)
		for _, tt := range []struct {
			call func() (any, error)
			want any
			args []any
		}{
			{func() (any, error) { return nil, b.Pods.Launch(ctx, ctx, launch) }, nil, []any{"launch", launch}},
			{func() (any, error) { return nil, b.Pods.Stop(ctx, ref, 7) }, nil, []any{"stop", ref, time.Duration(7)}},
			{func() (any, error) { return nil, b.Pods.Remove(ctx, ref) }, nil, []any{"remove", ref}},
			{func() (any, error) { return b.Pods.List(ctx) }, f.pods, []any{"list"}},
			{func() (any, error) { return b.Pods.Inspect(ctx, uids) }, f.pods, []any{"inspect", uids}},
			{func() (any, error) { return nil, b.Containers.Start(ctx, ref, start) }, nil, []any{"start", ref, start}},
			{
				func() (any, error) { return nil, b.Containers.Stop(ctx, cref, -1) }, nil,
				[]any{"stop container", cref, time.Duration(-1)},
			},
			{func() (any, error) { return nil, b.Resize.Resize(ctx, cref, start) }, nil, []any{"resize", cref, start}},
			{func() (any, error) { return nil, b.Containers.Remove(ctx, cref) }, nil, []any{"remove container", cref}},
			{func() (any, error) { return nil, b.Files.Place(ctx, place) }, nil, []any{"place", place}},
			{func() (any, error) { return nil, b.Files.Clear(ctx, ref) }, nil, []any{"clear", ref}},
			{func() (any, error) { return b.Files.Volumes(ctx) }, f.vols, []any{"volumes"}},
			{func() (any, error) { return b.Files.Read(ctx, file) }, []byte("A='1'\x00"), []any{"read", file}},
			{
				func() (any, error) { return nil, b.Refresh.Refresh(ctx, ref, launch.Volumes) }, nil,
				[]any{"refresh", ref, ofOnePod(launch.Volumes)},
			},
			{func() (any, error) { return b.Images.Find(ctx, "x") }, "id of x", []any{"find", "x"}},
			{
				func() (any, error) { return b.Images.Pull(ctx, "x", creds) },
				backend.PulledImage{ID: "id of x", Size: 5},
				[]any{"pull", "x", creds},
			},
			{func() (any, error) { return b.Store.List(ctx) }, f.kept, []any{"list images"}},
			{func() (any, error) { return nil, b.Store.Remove(ctx, "x") }, nil, []any{"remove image", "x"}},
			{func() (any, error) { return b.Store.Disk(ctx) }, f.disk, []any{"disk"}},
			{func() (any, error) { return b.Node.Describe(ctx) }, f.facts, []any{"describe"}},
		} {
			got, err := tt.call()
			if err != nil {
				t.Errorf("%s: %v", tt.args[0], err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s: answer (-want +got):\n%s", tt.args[0], diff)
			}
			if diff := cmp.Diff(tt.args, f.asked); diff != "" {
				t.Errorf("%s: arguments (-want +got):\n%s", tt.args[0], diff)
			}
		}
		if launch.Pod == nil || launch.Containers[0].Pod == nil || launch.Volumes[1].Pod == nil || start.Pod == nil ||
			place.Pod == nil {
			t.Error("the caller's spec was changed")
		}
	})
}

// ofOnePod are volumes of the last one's pod, as those of a refresh are.
func ofOnePod(volumes []backend.VolumeSpec) []backend.VolumeSpec {
	out := slices.Clone(volumes)
	for i := range out {
		out[i].Pod = out[len(out)-1].Pod
	}
	return out
}

// TestContainerErrorsKeepWhatTheySay: whose error it is, and that nothing was made.
func TestContainerErrorsKeepWhatTheySay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := &backend.ContainerError{
			Container: "c", Reason: "ErrImagePull", Err: backend.Errorf(backend.ErrDenied, "no access"),
		}
		f := &far{err: backend.Unmade(fmt.Errorf("launch: %w", said))}
		err := serve(t, f.backend).running("node").Pods.Launch(t.Context(), t.Context(), backend.LaunchSpec{})
		var got *backend.ContainerError
		if !errors.As(err, &got) || got.Container != "c" || got.Reason != "ErrImagePull" ||
			err.Error() != "launch: no access" ||
			!backend.IsUnmade(err) || backend.Class(err) != "Denied" {
			t.Errorf("%v: %+v", err, got)
		}
	})
}

// TestUnmadeStaysUnmade: that a launch made nothing is kept whatever its class, and is
// not said of one that may have.
func TestUnmadeStaysUnmade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{}
		b := serve(t, f.backend).running("node")
		for _, said := range []error{
			backend.Unmade(backend.Errorf(backend.ErrUnavailable, "not sent")),
			backend.Errorf(backend.ErrUnavailable, "the reply was lost"),
			&backend.ContainerError{Container: "c", Reason: "ErrImagePull", Err: errors.New("no image")},
		} {
			f.err = said
			err := b.Pods.Launch(t.Context(), t.Context(), backend.LaunchSpec{})
			if backend.IsUnmade(err) != backend.IsUnmade(said) || backend.Class(err) != backend.Class(said) {
				t.Errorf("%v: unmade %v, class %s", said, backend.IsUnmade(err), backend.Class(err))
			}
		}
	})
}

// TestNothingStaysNothing: nil, zero and false are not confused on the way.
func TestNothingStaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{}
		b := serve(t, f.backend).running("node")
		if got, err := b.Pods.List(t.Context()); got != nil || err != nil {
			t.Errorf("no list: %#v, %v", got, err)
		}
		f.pods = []backend.PodFacts{{Containers: []backend.ContainerFacts{{Healthy: new(false)}, {}}, IPs: []string{}}, {}}
		got, err := b.Pods.List(t.Context())
		if diff := cmp.Diff(f.pods, got); diff != "" || err != nil {
			t.Errorf("list: %v (-want +got):\n%s", err, diff)
		}
		wantClass(t, b.Pods.Launch(t.Context(), t.Context(), backend.LaunchSpec{}), "")
		if diff := cmp.Diff([]any{"launch", backend.LaunchSpec{}}, f.asked); diff != "" {
			t.Errorf("launch (-want +got):\n%s", diff)
		}
	})
}

// TestFieldsAreLent: each field of the contract is there at the client exactly
// when it is at the server.
func TestFieldsAreLent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := intercept.Lend(carriedFields(), nil)
		full.Name, full.Limits = "far", fullOf[backend.Limits](t)
		kind := reflect.TypeFor[backend.Backend]()
		for i := range kind.NumField() {
			field := kind.Field(i)
			if field.Type.Kind() != reflect.Interface || field.Name == "Check" {
				continue
			}
			if reflect.ValueOf(full).Field(i).IsNil() {
				t.Errorf("the test's backend does not lend %s: is it carried?", field.Name)
			}
			less := full
			reflect.ValueOf(&less).Elem().Field(i).SetZero()
			b := serve(t, func(string) backend.Backend { return less }).connect("node")
			for j := range kind.NumField() {
				if kind.Field(j).Type.Kind() != reflect.Interface {
					continue
				}
				if isNil := reflect.ValueOf(b).Field(j).IsNil(); isNil != (i == j) {
					t.Errorf("server without %s: %s at the client is nil: %v", field.Name, kind.Field(j).Name, isNil)
				}
			}
			if b.Name != "far" || b.Limits != full.Limits {
				t.Errorf("name %q, limits %+v", b.Name, b.Limits)
			}
		}
	})
}

// carriedFields are all that a client can lend.
func carriedFields() []string {
	var fields []string
	for _, m := range intercept.Methods() {
		if m.Kind != intercept.Local && m.Name != intercept.Run {
			fields = append(fields, m.Name.Field())
		}
	}
	return fields
}

// ofRealHosts are calls that no simulated remote takes, and so nobody carries.
func ofRealHosts(m intercept.Method) bool { return m.Name == intercept.SystemLogsOpen }

// TestEveryUnaryCallArrivesWhole: what the table names is carried, whatever it is.
func TestEveryUnaryCallArrivesWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked, answer []any
		answering := func(_ context.Context, c *intercept.Call, _ func(context.Context) error) error {
			asked, answer = c.Args, nil
			if c.Reply != nil {
				filled.Fill(t, reflect.ValueOf(c.Reply).Elem(), kubernetesOwn)
				answer = append(answer, c.Reply)
			}
			return nil
		}
		full := intercept.Lend(carriedFields(), answering)
		b := serve(t, func(string) backend.Backend { return full }).running("node")
		for _, m := range intercept.Methods() {
			if m.Kind != intercept.Unary {
				continue
			}
			var sent, got []any
			reply, err := intercept.Invoke(t.Context(), b, m.Name, func(args []any) error {
				for _, arg := range args {
					filled.Fill(t, reflect.ValueOf(arg).Elem(), kubernetesOwn)
				}
				sent = args
				return nil
			})
			if reply != nil {
				got = append(got, reply)
			}
			for _, arg := range sent {
				if v, ok := arg.(*[]backend.VolumeSpec); ok {
					*v = ofOnePod(*v)
				}
			}
			if diff := cmp.Diff(sent, asked); diff != "" || err != nil {
				t.Errorf("%s: %v, arguments (-sent +arrived):\n%s", m.Name, err, diff)
			}
			if diff := cmp.Diff(answer, got); diff != "" {
				t.Errorf("%s: answer (-sent +arrived):\n%s", m.Name, diff)
			}
		}
	})
}

// TestErrorsKeepTheirClass: class and text are those of the remote.
func TestErrorsKeepTheirClass(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for name, tt := range map[string]struct {
		err   error
		class string
		is    []error
	}{
		"not found": {
			backend.Errorf(backend.ErrNotFound, "no pod %q\nhere: ü", "a"), "NotFound", []error{backend.ErrNotFound},
		},
		"exists": {backend.Errorf(backend.ErrExists, "x"), "Exists", []error{backend.ErrExists}},
		"invalid": {
			fmt.Errorf("around: %w", backend.Errorf(backend.ErrInvalid, "x")), "Invalid", []error{backend.ErrInvalid},
		},
		"unsupported":  {backend.Errorf(backend.ErrUnsupported, "x"), "Unsupported", []error{backend.ErrUnsupported}},
		"capacity":     {backend.Errorf(backend.ErrCapacity, "x"), "Capacity", []error{backend.ErrCapacity}},
		"throttled":    {backend.Errorf(backend.ErrThrottled, "x"), "Throttled", []error{backend.ErrThrottled}},
		"unavailable":  {backend.Errorf(backend.ErrUnavailable, "x"), "Unavailable", []error{backend.ErrUnavailable}},
		"denied":       {backend.ErrDenied, "Denied", []error{backend.ErrDenied}},
		"of no class":  {errors.New("something broke"), "Transient", nil},
		"no text":      {errors.New(""), "Transient", nil},
		"a connection": {refused, "Transient", []error{syscall.ECONNREFUSED}},
		"a timeout":    {fmt.Errorf("dial: %w", os.ErrDeadlineExceeded), "Transient", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &far{err: tt.err}
				b := serve(t, f.backend).running("node")
				ctx, cref := t.Context(), backend.ContainerRef{}
				_, listing := b.Pods.List(ctx)
				_, exec := b.Exec.Exec(ctx, cref, backend.ExecSpec{})
				_, logs := b.Logs.Open(ctx, cref, backend.LogOptions{})
				_, dial := b.Dial.Dial(ctx, backend.Ref{}, "h:1")
				f.hint = func(context.Context, chan<- types.UID) error { return tt.err }
				events := b.Events.Run(ctx, nil)
				for call, err := range map[string]error{
					"list": listing, "exec": exec, "logs": logs, "dial": dial, "events": events,
				} {
					if err == nil || err.Error() != tt.err.Error() || backend.Class(err) != tt.class {
						t.Errorf("%s: %s: %v, want %s: %v", call, backend.Class(err), err, tt.class, tt.err)
					}
				}
				for _, target := range tt.is {
					if !errors.Is(dial, target) {
						t.Errorf("dial: %v is not %v", dial, target)
					}
				}
				var timeout net.Error
				if got := errors.As(dial, &timeout) && timeout.Timeout(); got != (name == "a timeout") {
					t.Errorf("dial: a timeout: %v", got)
				}
			})
		})
	}
}

// TestNodesAreApart: the server asks for the backend of the node that calls, once.
func TestNodesAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opened := map[string]int{}
		fars := map[string]*far{"a/ü b": {}, "c": {}}
		w := serve(t, func(node string) backend.Backend {
			opened[node]++
			return fars[node].backend(node)
		})
		for node := range fars {
			_, err := w.running(node).Images.Find(t.Context(), node)
			wantClass(t, err, "")
		}
		for node, f := range fars {
			if diff := cmp.Diff([]any{"find", node}, f.asked); diff != "" || opened[node] != 1 {
				t.Errorf("%s: opened %d times:\n%s", node, opened[node], diff)
			}
		}
	})
}

// TestWhatCannotBeServed is refused with a reason.
func TestWhatCannotBeServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := (&far{}).backend("")
		runs.Run = func(context.Context, backend.Permit) error { return nil }
		w := serve(t, func(string) backend.Backend { return runs })
		_, err := Connect(t.Context(), Config{Check: takesAll, dial: w.pipes.dial})
		wantClass(t, err, "Unsupported")
		if _, err := Connect(t.Context(), Config{dial: w.pipes.dial}); err == nil ||
			!strings.Contains(err.Error(), "checker") {
			t.Errorf("without a checker: %v", err)
		}
	})
}
