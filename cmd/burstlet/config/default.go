package config

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/backend/cri/criconfig"
	"github.com/burstlet/burstlet/syncloop/eviction"
)

// Default returns what holds for the fields that a file leaves out. It is not
// complete: a file must name the node and the backend.
func Default() Configuration {
	return Configuration{
		TypeMeta:      metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind},
		Node:          Node{OnOtherProcess: OtherProcessReport},
		CertDirectory: "/var/lib/burstlet/pki",
		Client:        Client{QPS: 50, Burst: 100},
		KubeletAPI:    KubeletAPI{Port: 10250, EnableSystemLogHandler: true},
		ClusterDomain: "cluster.local",
		Pods: Pods{
			HostNetwork: true, HostPID: true, HostIPC: true, HostPorts: true, Privileged: true, MaxParallelImagePulls: 5,
		},
		Images: Images{
			GCHighThresholdPercent: 85, GCLowThresholdPercent: 80, MinimumGCAge: Duration{2 * time.Minute},
			NodeStatusMaxImages: 50,
		},
		Eviction: Eviction{PressureTransitionPeriod: Duration{eviction.DefaultPressureTransitionPeriod}},
		LeaderElection: LeaderElection{
			LeaseDuration: Duration{8 * time.Second}, RenewDeadline: Duration{6 * time.Second},
			RetryPeriod: Duration{time.Second},
		},
		HealthzBindAddress: "127.0.0.1",
		Logging:            Logging{Level: "info", Format: FormatText},
		Shutdown: Shutdown{
			FlushTimeout: Duration{10 * time.Second}, Mode: ShutdownLeave,
			GracePeriod: Duration{30 * time.Second}, GracePeriodCriticalPods: Duration{10 * time.Second},
		},
	}
}

// Alone returns the configuration without a file: a node named burstlet on the
// simulated backend.
func Alone() Configuration {
	c := Default()
	c.Node.Name = "burstlet"
	c.Backend.Type = BackendSim
	c.KubeletAPI.SelfSigned = true
	return c
}

// fill gives the chosen backend its section and the section its defaults.
func (b *Backend) fill() {
	switch b.Type {
	case BackendSim:
		if b.sim().Socket == "" {
			fill(&b.Sim.Granularity, GranularityContainer)
		}
	case BackendCRI:
		b.cri().fill()
	case BackendECS:
		fill(&b.ecs().CPUArchitecture, "X86_64")
	}
}

// fill gives the section the defaults of its backend.
func (c *CRI) fill() {
	fill(&c.Endpoint, "unix:///run/containerd/containerd.sock")
	d := criconfig.Config{}.WithDefaults()
	fill(&c.RuntimeSocket, d.RuntimeSocket)
	fill(&c.PodsDir, d.PodsDir)
	fill(&c.SeccompProfileRoot, d.SeccompProfileRoot)
	fill(&c.ContainerLogMaxFiles, d.ContainerLogMaxFiles)
	if c.ContainerLogMaxSize == nil {
		c.ContainerLogMaxSize = &Quantity{*resource.NewQuantity(d.ContainerLogMaxSize, resource.BinarySI)}
	}
	if s := c.SSH; s != nil {
		fill(&s.Keepalive, Duration{5 * time.Second})
		fill(&s.KeepaliveMax, 3)
	}
	fill(&c.PodLogsDir, d.PodLogsDir)
	fill(&c.ContainerLogsDir, d.ContainerLogsDir)
	fill(&c.CgroupParent, d.CgroupParent)
	fill(&c.ResolvConf, d.ResolvConf)
}

func fill[T comparable](field *T, value T) {
	var none T
	if *field == none {
		*field = value
	}
}

// sim, cri and ecs return a section to write to.
func (b *Backend) sim() *Sim { return section(&b.Sim) }
func (b *Backend) cri() *CRI { return section(&b.CRI) }
func (b *Backend) ecs() *ECS { return section(&b.ECS) }

func section[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}
