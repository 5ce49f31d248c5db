package cri

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// sizedHost is a host of a known size that keeps what it was asked to prepare.
type sizedHost struct {
	host.Host
	tops []host.TopLimits
}

func (h *sizedHost) Facts(ctx context.Context) (host.Facts, error) {
	f, err := h.Host.Facts(ctx)
	f.CPUs, f.Memory, f.PIDs, f.Disk.Capacity = 4, 8<<30, 30000, 100<<30
	return f, err
}

func (h *sizedHost) Prepare(ctx context.Context, p host.Preparation) (host.Prepared, error) {
	if p.Cgroup != nil {
		h.tops = append(h.tops, p.Cgroup.Top)
	}
	return h.Host.Prepare(ctx, p)
}

func TestWhatIsReservedIsKeptFromPods(t *testing.T) {
	reserve := func(pairs ...string) corev1.ResourceList {
		list := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return list
	}
	for name, tt := range map[string]struct {
		reserved corev1.ResourceList
		top      host.TopLimits
		shown    corev1.ResourceList
		refused  string
	}{
		"nothing": {shown: nil},
		"everything that can be": {
			reserved: reserve("cpu", "500m", "memory", "1Gi", "ephemeral-storage", "10Gi", "pid", "1000"),
			top:      host.TopLimits{Shares: 3584, Memory: 7 << 30, PIDs: 29000},
			shown:    reserve("cpu", "500m", "memory", "1Gi", "ephemeral-storage", "10Gi"),
		},
		"memory alone": {
			reserved: reserve("memory", "1Gi"), top: host.TopLimits{Memory: 7 << 30}, shown: reserve("memory", "1Gi"),
		},
		"all that there is": {
			reserved: reserve("pid", "30000"),
			refused:  "backend.cri.systemReserved.pid: 30k leaves nothing of the host's 30k for pods",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			sized := &sizedHost{Host: w.host}
			w.host, w.cfg.Reserved = sized, tt.reserved
			r, _ := w.connect(t)
			facts, err := node{r}.Describe(t.Context())
			launched := pods{r}.Launch(t.Context(), t.Context(), launchSpec(testPod("u1"), 0))
			if tt.refused != "" {
				for _, err := range []error{err, launched} {
					if !errors.Is(err, backend.ErrUnsupported) || !strings.Contains(err.Error(), tt.refused) {
						t.Errorf("error %v", err)
					}
				}
				return
			}
			must(t, errors.Join(err, launched))
			if diff := cmp.Diff(tt.shown, facts.Reserved); diff != "" {
				t.Error(diff)
			}
			if _, shown := facts.Capacity["pid"]; shown {
				t.Error("the node shows processes as a resource")
			}
			if diff := cmp.Diff([]host.TopLimits{tt.top}, sized.tops); diff != "" {
				t.Error(diff)
			}
		})
	}
}
