package sim

import (
	"context"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
)

// Config says what kind of remote to simulate. The zero value lends containers
// and images, starts at once, and hints at every change.
type Config struct {
	// Node is the identity under which Backend owns its pods; "" is "sim".
	Node string
	// PodUnit makes the whole pod the unit of restart, as a task is on ECS:
	// Containers, Images and Store are nil and Launch runs everything.
	PodUnit bool
	// Capacity is what Node.Describe says; nil is 16 CPUs, 64Gi, 110 pods.
	Capacity corev1.ResourceList
	// HostIPs are the addresses of the simulated host; nil is 10.87.0.1. In the
	// pod unit each attempt is its own host, as on Fargate.
	HostIPs []string
	// MaxPods is how many live attempts have room before Launch fails with
	// ErrCapacity; 0 is no limit. SetMaxPods changes it.
	MaxPods int
	// Images are in the image store from the beginning.
	Images []string
	// Pinned names the images that are the runtime's own.
	Pinned []string
	// ImageSize is what an image takes on disk, by its name with its tag; nil: 64
	// MiB each. ImageDisk is the capacity of the file system that images alone stand
	// on; 0 is 100 GiB. A pull for which there is no room fails.
	ImageSize func(image string) uint64
	ImageDisk uint64
	// Latency is how long things take.
	Latency Latency
	// Files lends Files in the pod unit too. Without it contents travel in
	// LaunchSpec.Volumes there, as on ECS; the container unit always lends it.
	Files bool
	// Health has the remote probe containers by itself, in the pod unit: what it
	// finds is in Life.
	Health bool
	// NoEvents leaves Events nil.
	NoEvents bool
	// Script says what a container does. attempt is the container's own in the
	// container unit and the pod's in the pod unit. Nil reads the command line:
	// FromArgv. What a container writes and where it listens is always read from
	// its command line.
	Script func(pod *corev1.Pod, container corev1.Container, attempt int) Life
	// Exec says what a command in a container does; where it says false, or is
	// nil, the command line is read as that of a container.
	Exec func(Command) (Outcome, bool)
	// Dial connects to addresses that are none of the remote's; nil: they are
	// unreachable.
	Dial func(ctx context.Context, pod backend.Ref, address string) (net.Conn, error)
	// Record keeps a History of every change. It grows without bound: for
	// tests.
	Record bool
}

// Latency is how long a simulated remote takes. Zero is at once.
type Latency struct {
	// API is the round trip of every call: the first half passes before the
	// call has its effect, the second before its reply arrives. A call whose
	// context ends in the second half has happened.
	API time.Duration
	// Launch is from the acceptance of a Launch to the pod's address. In the
	// container unit the call blocks for it, in the pod unit it does not.
	Launch time.Duration
	// Pull is one image pull; in the pod unit, all pulls of an attempt.
	Pull time.Duration
	// Start is from the creation of a container, or in the pod unit from the end
	// of what it waits for, to its start. Containers.Start blocks for it.
	Start time.Duration
	// Stop is from the end of the last container of an attempt that is to end
	// to the attempt being no longer live.
	Stop time.Duration
}

// Life is what one container does when it is left alone and when it is stopped.
type Life struct {
	// StartAfter is added to Latency.Start for this container.
	StartAfter time.Duration
	// RunFor is how long it runs; 0 ends at once, negative runs until stopped.
	RunFor time.Duration
	// ExitCode is its exit code when it ends by itself.
	ExitCode int32
	// OOM says that it ends by being killed for memory; ExitCode 0 becomes 137.
	OOM bool
	// IgnoreTerm leaves only KILL to stop it.
	IgnoreTerm bool
	// StopTakes is how long it takes from TERM to its exit with 143.
	StopTakes time.Duration
	// HealthyAfter is when, after its start, Config.Health finds a container with
	// a probe healthy, and UnhealthyAfter when not any more; 0 is never.
	HealthyAfter, UnhealthyAfter time.Duration
}

// Exit codes of a container that a signal ended.
const (
	exitTerm = 143
	exitKill = 137
)

func (c Config) withDefaults() Config {
	if c.Node == "" {
		c.Node = "sim"
	}
	if c.Capacity == nil {
		c.Capacity = corev1.ResourceList{
			corev1.ResourceCPU:              resource.MustParse("16"),
			corev1.ResourceMemory:           resource.MustParse("64Gi"),
			corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
			corev1.ResourcePods:             resource.MustParse("110"),
		}
	}
	if c.HostIPs == nil {
		c.HostIPs = []string{"10.87.0.1"}
	}
	return c
}
