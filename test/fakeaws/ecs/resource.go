package ecs

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// unattached is why one task in a hundred or so stops, whatever it is: "intermittent API
// issues with the host" (AWS re:Post, "How do I resolve network interface provisioning
// errors for Amazon ECS on Fargate?"; 3 to 5 of 375 tasks in issue 82 of
// aws-solutions/distributed-load-testing-on-aws). The stop code, and how long it takes, are
// undocumented.
const unattached = "Timeout waiting for network interface provisioning to complete."

// resolve settles whether a task's secrets and log groups are there, with the
// rights of its roles (ECS developer guide, "ResourceInitializationError task
// errors" and "Task execution IAM role"). What it finds holds once the task's
// interface is attached; until then a change is looked at again (settle).
func (s *Server) resolve(t *task) {
	t.broken, t.noPayload = "", false
	if t.unattached {
		t.broken = unattached
	}
	for i := range t.def.ContainerDefinitions {
		c := &t.def.ContainerDefinitions[i]
		if why := s.resolveContainer(c); why != "" && t.broken == "" {
			t.broken = "ResourceInitializationError: " + why
		}
		if name := envOf(t.def, t.ov, i, payloadEnv); name != "" && isMaterializer(argv(c, t.ov)) {
			t.noPayload = t.noPayload || !s.hasPayload(name)
		}
	}
}

// hasPayload is true of a payload that the task role can read: an object
// ("s3://bucket/key") or a secret.
func (s *Server) hasPayload(name string) bool {
	object, ok := strings.CutPrefix(name, "s3://")
	if !ok {
		return s.readable(TaskRole, name) == ""
	}
	bucket, key, _ := strings.Cut(object, "/")
	return s.s3.Has(bucket, key) && s.allowed(TaskRole, "s3:GetObject", "arn:aws:s3:::"+object)
}

// settle looks again at the tasks whose interface is not attached yet.
func (s *Server) settle(now time.Time) {
	for i := len(s.order) - 1; i >= 0; i-- {
		t := s.tasks[s.order[i]]
		if now.Sub(t.created) >= s.cfg.Delays.Provision {
			return // all before it are older
		}
		broken, none := t.broken, t.noPayload
		if s.resolve(t); broken != t.broken || none != t.noPayload {
			s.relive(t)
			s.openStreams(t)
		}
	}
}

// resolveContainer is why a container cannot be set up, "" if it can.
func (s *Server) resolveContainer(c *containerDefinition) string {
	const pull = "unable to pull secrets or registry auth: execution resource retrieval failed: "
	for _, sec := range c.Secrets {
		at, ok := parseSecret(*sec.ValueFrom)
		if !ok {
			return pull + "unable to retrieve secrets from ssm: service call has been retried 1 time(s): invalid parameters: " +
				*sec.ValueFrom
		}
		if why := s.fetch(at); why != "" {
			return pull + why
		}
	}
	if rc := c.RepositoryCredentials; rc != nil {
		at, _ := parseSecret(*rc.CredentialsParameter) // checked at registration
		if why := s.fetchLogin(at); why != "" {
			return pull + why
		}
	}
	if s.cfg.Runner != nil && len(c.EnvironmentFiles) > 0 {
		return "failed to download env files: there is no S3 here"
	}
	return s.resolveLogs(c.LogConfiguration)
}

// fetch is why the execution role cannot read what a definition refers to.
func (s *Server) fetch(at secretAt) string {
	if why := s.readable(ExecutionRole, at.arn); why != "" {
		return fmt.Sprintf(
			"unable to retrieve secret from asm: service call has been retried 1 time(s): failed to fetch secret %s from "+
				"secrets manager: %s",
			at.arn, why,
		)
	}
	v := s.findSecret(at.arn).version(at.version, at.stage)
	switch {
	case v == nil:
		return fmt.Sprintf("unable to retrieve secret from asm: service call has been retried 1 time(s): failed to fetch "+
			"secret %s from secrets manager: "+
			"ResourceNotFoundException: Secrets Manager can't find the specified secret value for VersionId: %s",
			at.arn, at.version)
	case at.key == "":
		return ""
	}
	var members map[string]any
	if json.Unmarshal([]byte(v.text), &members) != nil {
		return "unable to retrieve secret from asm: invalid character in secret " + at.arn + ": it is not JSON"
	}
	if _, ok := members[at.key]; !ok {
		return fmt.Sprintf(
			"unable to retrieve secret from asm: retrieved secret from Secrets Manager did not contain json key %s", at.key,
		)
	}
	return ""
}

// fetchLogin is ECS developer guide, "Using non-AWS container images": the secret
// has a username and a password.
func (s *Server) fetchLogin(at secretAt) string {
	if why := s.fetch(at); why != "" {
		return why
	}
	if _, ok := s.loginOf(at); !ok {
		return "unable to retrieve registry auth from asm: the secret " + at.arn + " has no username and password"
	}
	return ""
}

// loginOf is the user and password that a secret holds.
func (s *Server) loginOf(at secretAt) (*Login, bool) {
	sec := s.findSecret(at.arn)
	if sec == nil {
		return nil, false
	}
	login := &Login{}
	v := sec.version(at.version, at.stage)
	if v == nil || json.Unmarshal([]byte(v.text), login) != nil || login.Username == "" || login.Password == "" {
		return nil, false
	}
	return login, true
}

// readable is why a role of a task cannot read a secret, "" if it can.
func (s *Server) readable(p Principal, name string) string {
	sec := s.findSecret(name)
	arn := name
	if sec != nil {
		arn = sec.arn
	} else if !isArn(name) {
		arn = s.arnOf("secretsmanager", "secret:"+name)
	}
	if !s.allowed(p, "secretsmanager:GetSecretValue", arn) {
		return "AccessDeniedException: " + s.denialText(string(p)+"-role/task", "secretsmanager:GetSecretValue", arn)
	}
	switch {
	case sec == nil:
		return "ResourceNotFoundException: Secrets Manager can't find the specified secret."
	case !sec.deleted.IsZero():
		return "InvalidRequestException: You can't perform this operation on the secret because it was marked for deletion."
	}
	return ""
}

// resolveLogs is why the awslogs driver cannot start (ECS developer guide, "Using
// the awslogs log driver": the group must exist unless awslogs-create-group).
func (s *Server) resolveLogs(l *logConfiguration) string {
	if l == nil {
		return ""
	}
	const prefix = "failed to validate logger args: "
	name := l.Options["awslogs-group"]
	arn := s.arnOf("logs", "log-group:"+name)
	if s.groups[name] == nil {
		switch {
		case l.Options["awslogs-create-group"] != "true":
			return prefix +
				"create stream has been retried 1 times: failed to create Cloudwatch log stream: ResourceNotFoundException: " +
				"The specified log group does not exist. : exit status 1"
		case !s.allowed(ExecutionRole, "logs:CreateLogGroup", arn):
			return prefix +
				"create log group has been retried 1 times: failed to create Cloudwatch log group: AccessDeniedException: " +
				s.denialText("execution-role/task", "logs:CreateLogGroup", arn)
		}
	}
	for _, action := range []string{"logs:CreateLogStream", "logs:PutLogEvents"} {
		if stream := arn + ":log-stream:" + l.Options["awslogs-stream-prefix"] +
			"/*"; !s.allowed(ExecutionRole, action, stream) {
			return prefix +
				"create stream has been retried 1 times: failed to create Cloudwatch log stream: AccessDeniedException: " +
				s.denialText("execution-role/task", action, stream)
		}
	}
	return ""
}

// openStreams makes the log groups and streams of a task's containers. A stream is
// there from when its container started.
func (s *Server) openStreams(t *task) {
	if t.broken != "" {
		return
	}
	for i := range t.def.ContainerDefinitions {
		c := &t.def.ContainerDefinitions[i]
		if c.LogConfiguration == nil {
			continue
		}
		o := c.LogConfiguration.Options
		g := s.groups[o["awslogs-group"]]
		if g == nil {
			g = newLogGroup(o["awslogs-group"], t.created)
			s.groups[g.name] = g
		}
		name := streamName(t, i)
		if g.streams[name] != nil {
			continue
		}
		st := &logStream{name: name, created: t.created, task: t, container: i}
		if t.driver != nil {
			st.written = &written{}
		}
		g.streams[name] = st
	}
}

// streamName is ECS developer guide, "Using the awslogs log driver": prefix,
// container and task.
func streamName(t *task, i int) string {
	c := &t.def.ContainerDefinitions[i]
	return c.LogConfiguration.Options["awslogs-stream-prefix"] + "/" + *c.Name + "/" + t.id()
}
