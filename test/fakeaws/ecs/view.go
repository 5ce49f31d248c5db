package ecs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// taskView is a task as the API shows it (ECS API, Task).
type taskView struct {
	TaskArn            string           `json:"taskArn"`
	ClusterArn         string           `json:"clusterArn"`
	TaskDefinitionArn  string           `json:"taskDefinitionArn"`
	LastStatus         string           `json:"lastStatus"`
	DesiredStatus      string           `json:"desiredStatus"`
	LaunchType         string           `json:"launchType"`
	CapacityProvider   string           `json:"capacityProviderName,omitempty"`
	AvailabilityZone   string           `json:"availabilityZone"`
	PlatformVersion    string           `json:"platformVersion"`
	PlatformFamily     string           `json:"platformFamily"`
	Group              string           `json:"group"`
	StartedBy          string           `json:"startedBy,omitempty"`
	CPU                string           `json:"cpu"`
	Memory             string           `json:"memory"`
	HealthStatus       string           `json:"healthStatus"`
	EphemeralStorage   ephemeralStorage `json:"ephemeralStorage"`
	EnableExecute      bool             `json:"enableExecuteCommand"`
	Version            int              `json:"version"`
	CreatedAt          *epoch           `json:"createdAt,omitempty"`
	PullStartedAt      *epoch           `json:"pullStartedAt,omitempty"`
	PullStoppedAt      *epoch           `json:"pullStoppedAt,omitempty"`
	ConnectivityAt     *epoch           `json:"connectivityAt,omitempty"`
	Connectivity       string           `json:"connectivity,omitempty"`
	StartedAt          *epoch           `json:"startedAt,omitempty"`
	StoppingAt         *epoch           `json:"stoppingAt,omitempty"`
	ExecutionStoppedAt *epoch           `json:"executionStoppedAt,omitempty"`
	StoppedAt          *epoch           `json:"stoppedAt,omitempty"`
	StopCode           string           `json:"stopCode,omitempty"`
	StoppedReason      string           `json:"stoppedReason,omitempty"`
	Attachments        []attachmentView `json:"attachments"`
	Containers         []containerView  `json:"containers"`
	Overrides          json.RawMessage  `json:"overrides"`
	Tags               []tag            `json:"tags"`
}

type attachmentView struct {
	ID      string     `json:"id"`
	Type    string     `json:"type"`
	Status  string     `json:"status"`
	Details []keyValue `json:"details"`
}

// containerView has cpu and memory as strings (ECS API, Container).
type containerView struct {
	ContainerArn      string             `json:"containerArn"`
	TaskArn           string             `json:"taskArn"`
	Name              string             `json:"name"`
	Image             string             `json:"image"`
	ImageDigest       string             `json:"imageDigest,omitempty"`
	RuntimeID         string             `json:"runtimeId,omitempty"`
	LastStatus        string             `json:"lastStatus"`
	ExitCode          *int32             `json:"exitCode,omitempty"`
	Reason            string             `json:"reason,omitempty"`
	HealthStatus      string             `json:"healthStatus"`
	CPU               string             `json:"cpu"`
	Memory            string             `json:"memory,omitempty"`
	MemoryReservation string             `json:"memoryReservation,omitempty"`
	NetworkInterfaces []networkInterface `json:"networkInterfaces"`
	ManagedAgents     []managedAgent     `json:"managedAgents,omitempty"`
}

// managedAgent is ECS API, ManagedAgent.
type managedAgent struct {
	Name          string `json:"name"`
	LastStatus    string `json:"lastStatus"`
	LastStartedAt *epoch `json:"lastStartedAt,omitempty"`
	Reason        string `json:"reason,omitempty"`
}

type networkInterface struct {
	AttachmentID string `json:"attachmentId"`
	IPv4         string `json:"privateIpv4Address,omitempty"`
}

// view shows the task as of now.
func (s *Server) view(t *task, now time.Time, tags bool) taskView {
	at, l, d := max(0, now.Sub(t.created)), &t.life, t.def
	id := t.arn[strings.LastIndex(t.arn, "/")+1:]
	v := taskView{
		TaskArn: t.arn, ClusterArn: s.arn("cluster/" + s.cfg.Cluster), TaskDefinitionArn: d.arn,
		LastStatus: l.status(at), DesiredStatus: t.desired(at), LaunchType: "FARGATE",
		PlatformVersion: "1.4.0", PlatformFamily: "Linux", Group: t.group, StartedBy: t.startedBy,
		AvailabilityZone: t.place.zone, EnableExecute: t.execute,
		EphemeralStorage: ephemeralStorage{int32(t.storage())},
		HealthStatus:     l.health(d, &s.cfg, at), Overrides: t.rawOverrides, Tags: []tag{},
		Containers: []containerView{},
	}
	if t.place.byStrategy { // ECS API, Task: capacityProviderName; with a launch type there is none
		v.CapacityProvider = t.place.provider
	}
	cpu, memory := t.size()
	v.CPU, v.Memory = strconv.Itoa(cpu), strconv.Itoa(memory)
	if len(v.Overrides) == 0 {
		v.Overrides = json.RawMessage(`{"containerOverrides":[]}`)
	}
	if tags {
		v.Tags = nonNil(t.tags)
	}
	s.showTimes(&v, t, at)
	if at >= l.stopping {
		v.StopCode, v.StoppedReason = l.stopCode, l.reason
	}
	v.Attachments = []attachmentView{attachment(t, id, at)}
	if t.ebs != nil {
		v.Attachments = append(v.Attachments, volumeAttachment(t, id, at))
	}
	for i, def := range d.ContainerDefinitions {
		v.Containers = append(v.Containers, s.container(t, def, &l.containers[i], id, at, &v.Version))
	}
	if s.cfg.GuardDuty {
		v.Containers = append(v.Containers, s.guard(t, id, at))
	}
	return v
}

// health is the task's (ECS developer guide, "Determine Amazon ECS task health
// using container health checks"): of its essential containers with a health
// check, the worst.
func (l *life) health(d *definition, cfg *Config, at time.Duration) string {
	out := ""
	for i, def := range d.ContainerDefinitions {
		if def.HealthCheck == nil || !def.isEssential() {
			continue
		}
		switch st := cfg.healthOf(&l.containers[i], at); {
		case st == unhealthy || out == "":
			out = st
		case st == unknown && out == healthy:
			out = unknown
		}
	}
	if out == "" {
		return unknown
	}
	return out
}

// guard is the container that GuardDuty Runtime Monitoring adds (GuardDuty user
// guide, "How Runtime Monitoring works with Fargate"): no definition has it, and
// its cpu is no number.
func (s *Server) guard(t *task, id string, at time.Duration) containerView {
	v := containerView{
		ContainerArn: s.arn("container/" + s.cfg.Cluster + "/" + id + "/guardduty"), TaskArn: t.arn,
		Name:  "aws-guardduty-agent-" + digest(id)[:7],
		Image: "guardduty/agent:v1", LastStatus: "PENDING", HealthStatus: unknown, CPU: "null",
		NetworkInterfaces: []networkInterface{},
	}
	if at >= t.life.attached && t.life.stopping > t.life.attached {
		v.LastStatus, v.RuntimeID = "RUNNING", id+"-guardduty"
	}
	if at >= t.life.executionStopped {
		v.LastStatus = "STOPPED"
		if v.RuntimeID != "" {
			v.ExitCode = new(int32)
		}
	}
	return v
}

// storage is a task's ephemeral storage in GiB: 20 unless asked for (ECS API,
// EphemeralStorage).
func (t *task) storage() int {
	switch {
	case t.ov.EphemeralStorage != nil:
		return int(t.ov.EphemeralStorage.SizeInGiB)
	case t.def.EphemeralStorage != nil:
		return int(t.def.EphemeralStorage.SizeInGiB)
	default:
		return standardStorage
	}
}

const standardStorage = 20

// showTimes sets what has happened, counting it in the version (ECS API, Task:
// version: "incremented each time a task changes state").
func (s *Server) showTimes(v *taskView, t *task, at time.Duration) {
	l := &t.life
	show := func(to **epoch, when time.Duration) {
		if when != never && at >= when {
			e := epoch(t.created.Add(when))
			*to = &e
			v.Version++
		}
	}
	show(&v.CreatedAt, 0)
	if l.stopping > l.attached {
		show(&v.PullStartedAt, l.attached)
	}
	if l.stopping > l.pulled {
		show(&v.PullStoppedAt, l.pulled)
	}
	if l.stopping > l.attached {
		show(&v.ConnectivityAt, l.attached)
		if v.ConnectivityAt != nil {
			v.Connectivity = "CONNECTED"
		}
	}
	show(&v.StartedAt, l.started)
	show(&v.StoppingAt, l.stopping)
	for _, c := range l.containers {
		if c.ran() { // a task in which nothing ran has no executionStoppedAt
			show(&v.ExecutionStoppedAt, l.executionStopped)
			break
		}
	}
	show(&v.StoppedAt, l.stopped)
}

// attachment is the elastic network interface (ECS API, Attachment). From when it
// has its address is undocumented.
func attachment(t *task, id string, at time.Duration) attachmentView {
	a := attachmentView{ID: "eni-" + id, Type: "ElasticNetworkInterface", Status: "PRECREATED"}
	add := func(k, v string) { a.Details = append(a.Details, keyValue{Name: &k, Value: &v}) }
	add("subnetId", t.place.subnet)
	if at >= t.life.attached {
		a.Status = "ATTACHED"
		add("networkInterfaceId", "eni-"+id[:17])
		add("macAddress", macAddress)
		add("privateDnsName", privateName(t.ip))
		add("privateIPv4Address", t.ip)
	}
	if at >= t.life.stopped {
		a.Status = "DELETED"
	}
	return a
}

// macAddress is every task's: nobody looks at it.
const macAddress = "0a:00:00:00:00:01"

func privateName(ip string) string { return "ip-" + strings.ReplaceAll(ip, ".", "-") + ".ec2.internal" }

// container shows one container. Its state is PENDING, RUNNING or STOPPED; an
// exitCode is there only if it ran (ECS API, Container), or waited for what cannot come
// true (containerLife.refuse).
func (s *Server) container(
	t *task, def containerDefinition, c *containerLife, id string, at time.Duration, version *int,
) containerView {
	v := containerView{
		ContainerArn: s.arn("container/" + s.cfg.Cluster + "/" + id + "/" + *def.Name), TaskArn: t.arn, Name: *def.Name,
		Image:      *def.Image,
		LastStatus: "PENDING", HealthStatus: unknown, CPU: strconv.Itoa(int(value(def.CPU))),
		NetworkInterfaces: []networkInterface{},
	}
	if def.Memory != nil {
		v.Memory = strconv.Itoa(int(*def.Memory))
	}
	if def.MemoryReservation != nil {
		v.MemoryReservation = strconv.Itoa(int(*def.MemoryReservation))
	}
	if at >= t.life.attached {
		v.NetworkInterfaces = append(v.NetworkInterfaces, networkInterface{AttachmentID: "eni-" + id, IPv4: t.ip})
	}
	if c.ran() && at >= c.start {
		*version++
		v.LastStatus, v.HealthStatus = "RUNNING", s.cfg.healthOf(c, at)
		v.RuntimeID = t.containerID(*def.Name)
		if v.ImageDigest = c.digest; t.driver == nil {
			v.ImageDigest = "sha256:" + digest(*def.Image)
		}
	}
	ended := c.end
	if !c.ran() {
		ended = min(c.refused, t.life.executionStopped) // undocumented
	}
	if t.execute {
		v.ManagedAgents = []managedAgent{s.execAgent(t, &def, c, at)}
	}
	if at >= ended && ended != never {
		*version++
		v.LastStatus, v.Reason = "STOPPED", c.reason
		if c.ran() && !c.lost || c.depended && !c.codeless {
			code := c.exit
			v.ExitCode = &code
		}
	}
	return v
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// execAgent is the agent of ECS Exec (ECS developer guide, "Monitor Amazon ECS
// containers with ECS Exec": "The SSM agent requires that the container file system
// is able to be written to"). How it shows that it could not start, and that it runs
// from when its container does, are undocumented.
func (s *Server) execAgent(t *task, def *containerDefinition, c *containerLife, at time.Duration) managedAgent {
	a := managedAgent{Name: "ExecuteCommandAgent", LastStatus: "PENDING"}
	switch {
	case !c.ran() || at < c.start:
	case value(def.ReadonlyRootFilesystem):
		a.LastStatus, a.Reason = "STOPPED", "the container's root file system is read-only"
	case at >= c.end:
		a.LastStatus = "STOPPED"
	case s.sessions.dead[t.arn+" "+*def.Name]:
		a.LastStatus, a.Reason = "STOPPED", "Received Container Exited event from Fargate runtime"
	default:
		a.LastStatus = "RUNNING"
	}
	if c.ran() && at >= c.start && !value(def.ReadonlyRootFilesystem) {
		e := epoch(t.created.Add(c.start))
		a.LastStartedAt = &e
	}
	return a
}
