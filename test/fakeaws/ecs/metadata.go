package ecs

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// Paths at MetadataHost. What follows credentialsPath is undocumented.
const (
	metadataPath    = "/v4/"
	credentialsPath = "/v2/credentials/"
)

// tmdContainer is a container of the task metadata endpoint (ECS developer guide,
// "Task metadata endpoint version 4 for tasks on Fargate": container metadata).
type tmdContainer struct {
	DockerID      string            `json:"DockerId,omitempty"`
	Name          string            `json:"Name"`
	DockerName    string            `json:"DockerName,omitempty"`
	Image         string            `json:"Image"`
	ImageID       string            `json:"ImageID"`
	Labels        map[string]string `json:"Labels,omitempty"`
	DesiredStatus string            `json:"DesiredStatus"`
	KnownStatus   string            `json:"KnownStatus"`
	Limits        tmdLimits         `json:"Limits"`
	CreatedAt     string            `json:"CreatedAt,omitempty"`
	StartedAt     string            `json:"StartedAt,omitempty"`
	FinishedAt    string            `json:"FinishedAt,omitempty"`
	ExitCode      *int32            `json:"ExitCode,omitempty"`
	Type          string            `json:"Type"`
	RestartCount  *int              `json:"RestartCount,omitempty"`
	LogDriver     string            `json:"LogDriver,omitempty"`
	LogOptions    map[string]string `json:"LogOptions,omitempty"`
	ContainerARN  string            `json:"ContainerARN"`
	Networks      []tmdNetwork      `json:"Networks,omitempty"`
	Health        *tmdHealth        `json:"Health,omitempty"`
	Snapshotter   string            `json:"Snapshotter"`
}

type tmdLimits struct {
	CPU    float64 `json:"CPU"`
	Memory int     `json:"Memory,omitempty"`
}

type tmdNetwork struct {
	NetworkMode              string   `json:"NetworkMode"`
	IPv4Addresses            []string `json:"IPv4Addresses"`
	AttachmentIndex          int      `json:"AttachmentIndex"`
	MACAddress               string   `json:"MACAddress"`
	IPv4SubnetCIDRBlock      string   `json:"IPv4SubnetCIDRBlock"`
	PrivateDNSName           string   `json:"PrivateDNSName"`
	SubnetGatewayIpv4Address string   `json:"SubnetGatewayIpv4Address"`
}

type tmdHealth struct {
	Status      string `json:"status"`
	StatusSince string `json:"statusSince,omitempty"`
}

// tmdTask is the task of the same page.
type tmdTask struct {
	Cluster          string         `json:"Cluster"`
	TaskARN          string         `json:"TaskARN"`
	Family           string         `json:"Family"`
	Revision         string         `json:"Revision"`
	DesiredStatus    string         `json:"DesiredStatus"`
	KnownStatus      string         `json:"KnownStatus"`
	Limits           tmdLimits      `json:"Limits"`
	PullStartedAt    string         `json:"PullStartedAt,omitempty"`
	PullStoppedAt    string         `json:"PullStoppedAt,omitempty"`
	AvailabilityZone string         `json:"AvailabilityZone"`
	LaunchType       string         `json:"LaunchType"`
	Containers       []tmdContainer `json:"Containers"`
	EphemeralStorage tmdStorage     `json:"EphemeralStorageMetrics"`
}

// tmdStorage is in MiB.
type tmdStorage struct {
	Utilized int `json:"Utilized"`
	Reserved int `json:"Reserved"`
}

// Metadata answers what the containers of driven tasks ask of MetadataHost.
func (s *Server) Metadata() http.Handler { return http.HandlerFunc(s.serveMetadata) }

func (s *Server) serveMetadata(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
		return
	}
	if id, ok := strings.CutPrefix(r.URL.Path, credentialsPath); ok {
		s.serveCredentials(w, id)
		return
	}
	id, what, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, metadataPath), "/")
	out, ok := s.metadataOf(r, id, what)
	if !ok || !strings.HasPrefix(r.URL.Path, metadataPath) {
		http.Error(w, "V4 metadata: unable to find the container or task", http.StatusNotFound)
		return
	}
	writeJSON(w, "application/json", out)
}

// metadataOf is what a container asks for.
func (s *Server) metadataOf(r *http.Request, id, what string) (any, bool) {
	t, i := s.byContainerID(id)
	if t == nil {
		return nil, false
	}
	switch what {
	case "":
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.tmdContainer(t, i), true
	case "task":
		used := t.driver.storage(r.Context())
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.tmdTask(t, used), true
	case "stats":
		return t.driver.stats(r.Context(), i), true
	case "task/stats":
		return t.driver.allStats(r.Context()), true
	}
	return nil, false
}

// byContainerID finds a container by its runtimeId.
func (s *Server) byContainerID(id string) (*task, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	taskID, _, _ := strings.Cut(id, "-")
	t := s.findTask(taskID)
	if t == nil || t.driver == nil {
		return nil, 0
	}
	for i, def := range t.def.ContainerDefinitions {
		if t.containerID(*def.Name) == id {
			return t, i
		}
	}
	return nil, 0
}

// tmdTask shows a task that uses so many bytes of its ephemeral storage.
func (s *Server) tmdTask(t *task, used uint64) tmdTask {
	now := s.age(t)
	cpu, memory := t.size()
	v := s.view(t, t.created.Add(now), false)
	out := tmdTask{
		Cluster: v.ClusterArn, TaskARN: t.arn, Family: *t.def.Family, Revision: revisionOf(t.def),
		DesiredStatus: v.DesiredStatus,
		KnownStatus:   knownStatus(v.LastStatus), Limits: tmdLimits{float64(cpu) / 1024, memory},
		PullStartedAt: rfc3339(t, t.life.attached), PullStoppedAt: rfc3339(t, t.life.pulled),
		AvailabilityZone: t.place.zone, LaunchType: "FARGATE",
		EphemeralStorage: tmdStorage{int(used >> 20), t.storage() * 1024},
	}
	for i := range t.def.ContainerDefinitions {
		out.Containers = append(out.Containers, s.tmdContainer(t, i))
	}
	return out
}

// knownStatus is a task's state as the agent knows it (amazon-ecs-agent,
// ecs-agent/api/task/status): what only ECS itself does is not among them.
func knownStatus(lastStatus string) string {
	switch lastStatus {
	case "RUNNING", "STOPPED":
		return lastStatus
	case "DEACTIVATING", "STOPPING":
		return "RUNNING"
	case "DEPROVISIONING":
		return "STOPPED"
	default:
		return "CREATED"
	}
}

// beforeStart is the state of a container that has not started.
func (c *containerLife) beforeStart() string {
	if c.digest == "" {
		return "NONE"
	}
	return "PULLED"
}

func (s *Server) tmdContainer(t *task, i int) tmdContainer {
	def, c, now := &t.def.ContainerDefinitions[i], &t.life.containers[i], s.age(t)
	ov := t.ov.of(*def.Name)
	out := tmdContainer{
		Name: *def.Name, Image: *def.Image, ImageID: c.digest, DesiredStatus: "RUNNING", KnownStatus: c.beforeStart(),
		Type:         "NORMAL",
		Limits:       tmdLimits{float64(value(first(ov.CPU, def.CPU))), int(value(first(ov.Memory, def.Memory)))},
		ContainerARN: s.arn("container/" + s.cfg.Cluster + "/" + t.id() + "/" + *def.Name), Snapshotter: "overlayfs",
		Labels: s.labels(t, def),
	}
	if t.desired(now) == "STOPPED" {
		out.DesiredStatus = "STOPPED"
	}
	if l := def.LogConfiguration; l != nil {
		out.LogDriver, out.LogOptions = value(l.LogDriver), l.Options
	}
	if def.RestartPolicy != nil {
		out.RestartCount = &c.restarts
	}
	if now >= t.life.attached {
		out.Networks = []tmdNetwork{s.tmdNetwork(t)}
	}
	if c.ran() {
		out.DockerID, out.DockerName, out.KnownStatus = t.containerID(*def.Name), *def.Name, "RUNNING"
		out.CreatedAt, out.StartedAt = rfc3339(t, c.start), rfc3339(t, c.start)
	}
	if def.HealthCheck != nil && c.ran() {
		out.Health = &tmdHealth{Status: c.status(now)}
		if n := len(c.health); n > 0 {
			out.Health.StatusSince = rfc3339(t, c.start+c.health[n-1].at)
		}
	}
	if c.end != never || c.refused != never {
		out.KnownStatus, out.FinishedAt = "STOPPED", rfc3339(t, min(c.end, c.refused))
		if c.ran() && !c.lost || c.depended && !c.codeless {
			code := c.exit
			out.ExitCode = &code
		}
	}
	return out
}

func (s *Server) labels(t *task, def *containerDefinition) map[string]string {
	labels := map[string]string{
		"com.amazonaws.ecs.cluster": s.arn("cluster/" + s.cfg.Cluster), "com.amazonaws.ecs.container-name": *def.Name,
		"com.amazonaws.ecs.task-arn": t.arn, "com.amazonaws.ecs.task-definition-family": *t.def.Family,
		"com.amazonaws.ecs.task-definition-version": revisionOf(t.def),
	}
	for k, v := range def.DockerLabels {
		labels[k] = v
	}
	return labels
}

func (s *Server) tmdNetwork(t *task) tmdNetwork {
	return tmdNetwork{
		NetworkMode: "awsvpc", IPv4Addresses: []string{t.ip}, MACAddress: macAddress,
		IPv4SubnetCIDRBlock: t.ip[:strings.LastIndex(t.ip, ".")] + ".0/24", PrivateDNSName: privateName(t.ip),
		SubnetGatewayIpv4Address: t.ip[:strings.LastIndex(t.ip, ".")] + ".1/24",
	}
}

// rfc3339 is a time of a task's life, "" if it has not come.
func rfc3339(t *task, at time.Duration) string {
	if at == never {
		return ""
	}
	return t.created.Add(at).UTC().Format(time.RFC3339Nano)
}

// credentialsID is the secret part of the path of a task's credentials, accessKey
// the key id that they have.
func (t *task) credentialsID() string {
	d := digest("credentials " + t.arn)
	return strings.Join([]string{d[:8], d[8:12], d[12:16], d[16:20], d[20:32]}, "-")
}

func (t *task) accessKey() string { return "ASIA" + strings.ToUpper(digest("key " + t.arn)[:16]) }

func (t *task) secretKey() string { return digest("secret " + t.arn)[:40] }

func (t *task) sessionToken() string { return digest("token " + t.arn) }

// credentialsLife is how long they are good for; undocumented: "rotated".
const credentialsLife = 6 * time.Hour

// serveCredentials is ECS developer guide, "Task IAM role": credentials of the role.
func (s *Server) serveCredentials(w http.ResponseWriter, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.byKey {
		if t.credentialsID() == id && t.role() != "" {
			writeJSON(w, "application/json", map[string]string{
				"RoleArn": t.role(), "AccessKeyId": t.accessKey(), "SecretAccessKey": t.secretKey(),
				"Token": t.sessionToken(), "Expiration": time.Now().Add(credentialsLife).UTC().Format(time.RFC3339),
			})
			return
		}
	}
	b, err := json.Marshal(map[string]string{
		"code": "InvalidIdInRequest", "message": "CredentialsV2Request: Credentials not found",
	})
	if err != nil { // our own type
		panic(err)
	}
	http.Error(w, string(b), http.StatusBadRequest)
}
