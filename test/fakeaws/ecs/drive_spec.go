package ecs

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// id is the last part of a task's ARN.
func (t *task) id() string { return t.arn[strings.LastIndex(t.arn, "/")+1:] }

// containerID is a container's runtimeId, as Fargate makes them.
func (t *task) containerID(name string) string { return t.id() + "-" + digest(name)[:10] }

// taskSpec is what a driven task's containers share.
func (s *Server) taskSpec(t *task) TaskSpec {
	cpu, memory := t.size()
	spec := TaskSpec{
		ID: t.id(), MemoryMiB: memory, CPU: cpu, SharePID: value(t.def.PidMode) == "task", Sysctls: map[string]string{},
	}
	// ECS API, SystemControl: net.* set by any container holds for the task, "the
	// container that is started last determines which": here by their order.
	for _, i := range t.def.order {
		for _, sc := range t.def.ContainerDefinitions[i].SystemControls {
			spec.Sysctls[value(sc.Namespace)] = value(sc.Value)
		}
	}
	for i := range t.def.Volumes {
		spec.Volumes = append(spec.Volumes, t.def.Volumes[i].spec())
	}
	return spec
}

// spec is a volume for a runner. An access point is a directory of its own here, and
// a volume made for the task one that is new.
func (v *volume) spec() VolumeSpec {
	out := VolumeSpec{Name: *v.Name}
	switch {
	case v.EFS != nil:
		out.FileSystem, out.Root = *v.EFS.FileSystemID, or(v.EFS.RootDirectory, "/")
		if v.EFS.Authorization != nil && value(v.EFS.Authorization.AccessPointID) != "" {
			out.FileSystem += "." + *v.EFS.Authorization.AccessPointID
		}
	case v.S3Files != nil:
		last := func(arn string) string { return arn[strings.LastIndex(arn, "/")+1:] }
		out.FileSystem, out.Root = last(*v.S3Files.FileSystemARN), or(v.S3Files.RootDirectory, "/")
		if v.S3Files.AccessPointARN != nil {
			out.FileSystem += "." + last(*v.S3Files.AccessPointARN)
		}
	}
	return out
}

// specify settles what each container of the task will be, with the values of its
// secrets (ECS developer guide, "Pass Secrets Manager secrets": they are resolved
// when the container starts; Fargate does so before the task's first).
func (d *driver) specify() {
	for i := range d.t.def.ContainerDefinitions {
		d.parts[i].spec = d.s.containerSpec(d.t, i)
	}
}

func (s *Server) containerSpec(t *task, i int) ContainerSpec {
	def := &t.def.ContainerDefinitions[i]
	ov := t.ov.of(*def.Name)
	spec := ContainerSpec{
		ID: t.containerID(*def.Name), Name: *def.Name, Image: *def.Image, EntryPoint: def.EntryPoint, Command: def.Command,
		Env: s.environment(t, i), User: value(def.User), WorkingDirectory: value(def.WorkingDirectory),
		ReadOnlyRoot: value(def.ReadonlyRootFilesystem), Interactive: value(def.Interactive), TTY: value(def.PseudoTerminal),
		Mounts: t.def.mounts(i), MemoryMiB: int(value(first(ov.Memory, def.Memory))), CPU: int(value(first(ov.CPU, def.CPU))),
		ExecMiB: t.execMemory(s.cfg.Kindness, s.cfg.Observed), Log: s.logTo(t, i),
	}
	if ov.Command != nil {
		spec.Command = ov.Command
	}
	if lp := def.LinuxParameters; lp != nil {
		if lp.Capabilities != nil {
			spec.AddCaps, spec.DropCaps = lp.Capabilities.Add, lp.Capabilities.Drop
		}
		for _, t := range lp.Tmpfs {
			spec.Tmpfs = append(spec.Tmpfs, TmpfsSpec{*t.ContainerPath, int(t.Size), t.MountOptions})
		}
	}
	spec.Ulimits = ulimitsOf(def.Ulimits)
	return spec
}

// defaultNofile is ECS API, ContainerDefinition: ulimits: Fargate's own soft and
// hard limit.
const defaultNofile = 65535

func ulimitsOf(given []ulimit) []Ulimit {
	out := []Ulimit{}
	for _, u := range given {
		out = append(out, Ulimit{value(u.Name), int64(value(u.SoftLimit)), int64(value(u.HardLimit))})
	}
	if !slices.ContainsFunc(out, func(u Ulimit) bool { return u.Name == "nofile" }) {
		out = append(out, Ulimit{"nofile", defaultNofile, defaultNofile})
	}
	return out
}

// of is the override of a container, empty if there is none.
func (o overrides) of(name string) containerOverride {
	for _, c := range o.ContainerOverrides {
		if value(c.Name) == name {
			return c
		}
	}
	return containerOverride{}
}

// mounts are those of container i, with those it takes from others (ECS API,
// VolumeFrom).
func (d *definition) mounts(i int) []MountSpec {
	out := []MountSpec{}
	for _, m := range d.ContainerDefinitions[i].MountPoints {
		out = append(out, MountSpec{*m.SourceVolume, *m.ContainerPath, value(m.ReadOnly)})
	}
	for _, from := range d.ContainerDefinitions[i].VolumesFrom {
		for _, m := range d.ContainerDefinitions[d.index(*from.SourceContainer)].MountPoints {
			out = append(out, MountSpec{*m.SourceVolume, *m.ContainerPath, value(m.ReadOnly) || value(from.ReadOnly)})
		}
	}
	return out
}

// environment is what container i finds in its environment: that of its definition,
// of the overrides, its secrets, and what ECS adds (ECS developer guide, "Task
// metadata endpoint version 4", "Task IAM role"; AWS_REGION and AWS_EXECUTION_ENV:
// "Amazon ECS environment variables").
func (s *Server) environment(t *task, i int) []string {
	def := &t.def.ContainerDefinitions[i]
	var names []string
	values := map[string]string{}
	set := func(name, v string) {
		if _, there := values[name]; !there {
			names = append(names, name)
		}
		values[name] = v
	}
	for _, kv := range slices.Concat(def.Environment, t.ov.of(*def.Name).Environment) {
		set(value(kv.Name), value(kv.Value))
	}
	for _, sec := range def.Secrets {
		if at, ok := parseSecret(*sec.ValueFrom); ok && s.fetch(at) == "" {
			set(*sec.Name, s.secretText(at))
		}
	}
	set("ECS_CONTAINER_METADATA_URI_V4", "http://"+MetadataHost+metadataPath+t.containerID(*def.Name))
	set("ECS_AGENT_URI", "http://"+MetadataHost+"/api/"+t.containerID(*def.Name))
	set("AWS_EXECUTION_ENV", "AWS_ECS_FARGATE")
	set("AWS_REGION", s.cfg.Region)
	set("AWS_DEFAULT_REGION", s.cfg.Region)
	if t.role() != "" {
		set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", credentialsPath+t.credentialsID())
	}
	env := make([]string, 0, len(names))
	for _, name := range names {
		env = append(env, name+"="+values[name])
	}
	return env
}

// role is a task's role, "" if it has none.
func (t *task) role() string { return value(first(t.ov.TaskRoleArn, t.def.TaskRoleArn)) }

// secretText is what a reference to a secret stands for. It was fetched before.
func (s *Server) secretText(at secretAt) string {
	v := s.findSecret(at.arn).version(at.version, at.stage)
	if at.key == "" {
		return v.text
	}
	var members map[string]json.RawMessage
	var text string
	if json.Unmarshal([]byte(v.text), &members) != nil || json.Unmarshal(members[at.key], &text) != nil {
		return string(members[at.key]) // a number, or an object: as it stands there
	}
	return text
}

// logTo is what takes the lines of container i, nil if nothing does (ECS developer
// guide, "Using the awslogs log driver": stdout and stderr).
func (s *Server) logTo(t *task, i int) func(time.Time, string) {
	l := t.def.ContainerDefinitions[i].LogConfiguration
	if l == nil {
		return nil
	}
	g := s.groups[l.Options["awslogs-group"]]
	if g == nil {
		return nil
	}
	st := g.streams[streamName(t, i)]
	if st == nil {
		return nil
	}
	return func(at time.Time, line string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.cfg.Kindness.LogsAtOnce {
			st.written.add(at.Sub(t.created), line)
			return
		}
		for line != "" {
			n := min(len(line), maxEventText)
			st.written.add(at.Sub(t.created), line[:n])
			line = line[n:]
		}
	}
}

// written are the lines of a container that runs for real, by when they were
// written, at offsets from the creation of its task.
type written struct{ lines []writtenLine }

type writtenLine struct {
	at   time.Duration
	text string
}

// add appends a line. Two streams end in one, so times may come out of order by a
// hair: they never go back here.
func (w *written) add(at time.Duration, text string) {
	if n := len(w.lines); n > 0 {
		at = max(at, w.lines[n-1].at)
	}
	w.lines = append(w.lines, writtenLine{max(at, 0), text})
}

func (w *written) count(at time.Duration) int {
	n, _ := slices.BinarySearchFunc(w.lines, at, func(l writtenLine, at time.Duration) int {
		if l.at <= at {
			return -1
		}
		return 1
	})
	return n
}

func (w *written) line(i int) (time.Duration, string) { return w.lines[i].at, w.lines[i].text }
