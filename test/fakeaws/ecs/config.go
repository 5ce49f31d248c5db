package ecs

import (
	"context"
	"time"

	"github.com/burstlet/burstlet/test/fakeaws/s3"
)

// Config of a server. The zero value is a region us-east-1 with one cluster
// named default in which everything is allowed and happens at once.
type Config struct {
	// Region and Account stand in ARNs; us-east-1 and 123456789012 if empty.
	Region, Account string
	// Cluster is the one cluster that exists; "default" if empty.
	Cluster string
	// AccessKey is the only access key id accepted; empty accepts any.
	AccessKey string
	Delays    Delays
	// Pulls is how long the pulls of single images take, by name; others take Delays.Pull.
	Pulls map[string]time.Duration
	// Kindness makes it kinder than AWS is; a test that wants it says so.
	Kindness Kindness
	// Observed is what a real account was seen to do, in the place of what is assumed.
	Observed Observed
	// Throttles refuses calls beyond the documented rates with ThrottlingException.
	Throttles bool
	// CapacityProviders are those that the cluster is associated with; nil is
	// FARGATE and FARGATE_SPOT.
	CapacityProviders []string
	// Subnets and SecurityGroups are those that exist; nil takes any id with the
	// right prefix.
	Subnets        []Subnet
	SecurityGroups []string
	// VCPU and SpotVCPU are the quotas of vCPUs that run at once; 0 is none.
	VCPU, SpotVCPU float64
	// QuotaAsFailure answers a quota reached with failures[] instead of
	// ClientException. Which one AWS uses is undocumented.
	QuotaAsFailure bool
	// Roles are the IAM roles that exist, beside the caller's; nil takes any name.
	Roles []Role
	// NoInterface is how many tasks there are to one whose network interface does not
	// come: 2 is the first, third, fifth …; 0: 100, the fiftieth first. See
	// Kindness.Interfaces.
	NoInterface int
	// LogGroups exist from the start.
	LogGroups []string
	// Buckets are those of S3 that exist.
	Buckets []s3.Bucket
	// Queues are SQS queues; each gets every task state change.
	Queues []string
	// Events says how the queues misbehave.
	Events EventFaults
	// Reworded says every error in words that nobody knows: AWS documents codes, not
	// words, and changes these.
	Reworded bool
	// GuardDuty adds a container to every task that no definition has.
	GuardDuty bool
	// Policy says who may do what, such as (Caller, "ecs:RunTask", an ARN); nil
	// allows all. It is called with the server's lock held.
	Policy func(p Principal, action, resource string) bool
	// Runner runs the containers of tasks for real; nil: what they do is read from
	// their commands. A server with one must be closed.
	Runner Runner
	// Exec runs commands in containers where there is no runner: see Server.Exec.
	Exec func(context.Context, ExecCall) (exitCode int, err error)
	// Sessions says how sessions of ECS Exec behave.
	Sessions SessionConfig
}

// pullOf is how long the pull of an image takes.
func (c *Config) pullOf(image string) time.Duration {
	if took, ok := c.Pulls[image]; ok {
		return took
	}
	return c.Delays.Pull
}

// Delays are how long things take.
type Delays struct {
	// Provision is the time in PROVISIONING, until the network interface is there.
	Provision time.Duration
	// Pull is how long it takes to pull an image, and so the time from PENDING until the
	// first container starts.
	Pull time.Duration
	// Deactivate is the time in DEACTIVATING before containers get SIGTERM.
	Deactivate time.Duration
	// Deprovision is the time in DEPROVISIONING, after the last container ended.
	Deprovision time.Duration
	// Visible is how long a new task is missing from DescribeTasks and ListTasks
	// (ECS API, RunTask: "The Amazon ECS API follows an eventual consistency model").
	Visible time.Duration
	// Stale is how old a state DescribeTasks and ListTasks may show; it differs from
	// call to call, so a later call may show an older state.
	Stale time.Duration
	// Ingest is how long after it was flushed a log event can be read; 0: 1 to 3 s. See
	// Kindness.LogsAtOnce.
	Ingest time.Duration
	// Listed is how long ListSecrets does not know of a change (Secrets Manager API,
	// ListSecrets: "might not reflect changes from the last five minutes"); 0: five
	// minutes. See Kindness.ListsAtOnce.
	Listed time.Duration
	// Erase is how long after DeleteSecret without recovery the name is not free
	// (Secrets Manager API, DeleteSecret: "there might be a short delay").
	Erase time.Duration
	// Event is how long after a change its event is in the queues.
	Event time.Duration
}

// Kindness is what AWS does not do for its users. The zero value is AWS's behaviour.
type Kindness struct {
	// StopsRefused stops a task at once when an essential container of it can never
	// start. AWS may leave it PENDING until somebody stops it.
	StopsRefused bool
	// PlainThrottles answers a throttle with ThrottlingException alone.
	PlainThrottles bool
	// ExecForFree lets the agents of ECS Exec run without memory.
	ExecForFree bool
	// HealthAtOnce shows the health of containers in DescribeTasks as it changes.
	HealthAtOnce bool
	// LogsAtOnce flushes each line as it is written, and keeps empty ones: what it takes
	// until it can be read is Delays.Ingest.
	LogsAtOnce bool
	// Interfaces lets all tasks get their network interface.
	Interfaces bool
	// PullsUpfront pulls the images of all containers before the first starts; otherwise
	// that of one which depends on others is pulled only once it may start.
	PullsUpfront bool
	// TermEnds ends by SIGTERM also the first process of a container that does not handle
	// it, which the kernel spares.
	TermEnds bool
	// ListsAtOnce shows in ListSecrets what was made and deleted at once.
	ListsAtOnce bool
}

// Subnet is a subnet that exists. Zone and VPC may be empty.
type Subnet struct{ ID, Zone, VPC string }

// EventFaults are what EventBridge and SQS do not promise. Which event is
// concerned depends on task and change alone, so that runs repeat.
type EventFaults struct {
	// Double delivers every n-th event twice; 0 none.
	Double int
	// Lose drops every n-th event; 0 none.
	Lose int
	// Jitter delays events by up to this much, so that they come out of order.
	Jitter time.Duration
}

// Names of Fargate's capacity providers.
const (
	onDemand = "FARGATE"
	spot     = "FARGATE_SPOT"
)

func (c Config) withDefaults() Config {
	if c.Region == "" {
		c.Region = "us-east-1"
	}
	if c.Account == "" {
		c.Account = "123456789012"
	}
	if c.Cluster == "" {
		c.Cluster = "default"
	}
	switch {
	case c.Kindness.ListsAtOnce:
		c.Delays.Listed = 0
	case c.Delays.Listed == 0:
		c.Delays.Listed = 5 * time.Minute
	}
	if c.NoInterface == 0 {
		c.NoInterface = 100
	}
	if c.CapacityProviders == nil {
		c.CapacityProviders = []string{onDemand, spot}
	}
	return c
}
