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
	PlatformVersion    string           `json:"platformVersion"`
	PlatformFamily     string           `json:"platformFamily"`
	Group              string           `json:"group"`
	StartedBy          string           `json:"startedBy,omitempty"`
	CPU                string           `json:"cpu"`
	Memory             string           `json:"memory"`
	HealthStatus       string           `json:"healthStatus"`
	EnableExecute      bool             `json:"enableExecuteCommand"`
	Version            int              `json:"version"`
	CreatedAt          *epoch           `json:"createdAt,omitempty"`
	PullStartedAt      *epoch           `json:"pullStartedAt,omitempty"`
	PullStoppedAt      *epoch           `json:"pullStoppedAt,omitempty"`
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
	NetworkInterfaces []networkInterface `json:"networkInterfaces"`
}

type networkInterface struct {
	AttachmentID string `json:"attachmentId"`
	IPv4         string `json:"privateIpv4Address,omitempty"`
}

// view shows the task as of now.
func (s *Server) view(t *task, now time.Time, tags bool) taskView {
	at, l, d := now.Sub(t.created), &t.life, t.def
	id := t.arn[strings.LastIndex(t.arn, "/")+1:]
	v := taskView{
		TaskArn: t.arn, ClusterArn: s.arn("cluster/" + s.cfg.Cluster), TaskDefinitionArn: d.arn,
		LastStatus: l.status(at), DesiredStatus: t.desired(at), LaunchType: "FARGATE",
		PlatformVersion: "1.4.0", PlatformFamily: "Linux", Group: t.group, StartedBy: t.startedBy,
		HealthStatus: "UNKNOWN", Overrides: t.rawOverrides, Tags: []tag{}, Containers: []containerView{},
	}
	cpu, memory, _ := checkSize(d.CPU, d.Memory) // checked at registration
	if t.ov.CPU != nil {
		cpu, memory, _ = checkSize(t.ov.CPU, t.ov.Memory)
	}
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
	for i, def := range d.ContainerDefinitions {
		v.Containers = append(v.Containers, s.container(t, def, l.containers[i], id, at, &v.Version))
	}
	return v
}

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
	add("subnetId", t.subnet)
	if at >= t.life.attached {
		a.Status = "ATTACHED"
		add("networkInterfaceId", "eni-"+id[:17])
		add("macAddress", "0a:00:00:00:00:01")
		add("privateIPv4Address", t.ip)
	}
	if at >= t.life.stopped {
		a.Status = "DELETED"
	}
	return a
}

// container shows one container. Its state is PENDING, RUNNING or STOPPED; an
// exitCode is there only if it ran (ECS API, Container).
func (s *Server) container(t *task, def containerDefinition, c containerLife, id string, at time.Duration, version *int) containerView {
	v := containerView{
		ContainerArn: s.arn("container/" + s.cfg.Cluster + "/" + id + "/" + *def.Name), TaskArn: t.arn, Name: *def.Name, Image: *def.Image,
		LastStatus: "PENDING", HealthStatus: "UNKNOWN", CPU: strconv.Itoa(int(value(def.CPU))), NetworkInterfaces: []networkInterface{},
	}
	if def.Memory != nil {
		v.Memory = strconv.Itoa(int(*def.Memory))
	}
	if at >= t.life.attached {
		v.NetworkInterfaces = append(v.NetworkInterfaces, networkInterface{AttachmentID: "eni-" + id, IPv4: t.ip})
	}
	if c.ran() && at >= c.start {
		*version++
		v.LastStatus = "RUNNING"
		v.RuntimeID = id + "-" + digest(*def.Name)[:10]
		v.ImageDigest = "sha256:" + digest(*def.Image)
	}
	ended := c.end
	if !c.ran() {
		ended = t.life.executionStopped // undocumented
	}
	if at >= ended && ended != never {
		*version++
		v.LastStatus, v.Reason = "STOPPED", c.reason
		if c.ran() {
			v.ExitCode = &c.exit
		}
	}
	return v
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
