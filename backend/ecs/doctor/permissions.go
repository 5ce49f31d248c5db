package doctor

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/payload"
)

// permission is one that a node's process has in IAM.
type permission struct {
	// action and resource are IAM's; sid is the statement of the controller's policy
	// that grants it.
	action, resource, sid string
	// context are the keys of the statement's conditions.
	context map[string]string
	// try makes a call that reads, and that needs it; nil: such a call would change
	// something.
	try func(context.Context) error
	// optional permissions are needed by some pods alone.
	optional bool
	// without says what does not work without it; empty: the node.
	without string
}

// wanted are all that the controller's policy grants and this configuration needs, but
// for ecs:DescribeClusters and s3:ListBucket, which checkCluster and checkBucket have.
func (d *doctor) wanted() []permission {
	return slices.Concat(d.wantedOfECS(), d.wantedRoles(), d.wantedSecrets(), d.wantedObjects(), d.wantedRest())
}

// taskARN is of a task that cannot be: ids have 32 hex digits.
func (d *doctor) taskARN() string {
	return strings.Replace(d.cluster, ":cluster/", ":task/", 1) + "/" + strings.Repeat("0", 32)
}

// arn is of a resource in the node's region and account.
func (d *doctor) arn(service, resource string) string {
	name, _ := partition(d.cfg.Region)
	return fmt.Sprintf("arn:%s:%s:%s:%s:%s", name, service, d.cfg.Region, d.account, resource)
}

// unknownFamily is of a definition that nobody has.
const unknownFamily = identity.FamilyRoot + "doctor"

func (d *doctor) wantedOfECS() []permission {
	definition := d.arn("ecs", "task-definition/"+unknownFamily+":1")
	inCluster := map[string]string{"ecs:cluster": d.cluster}
	out := []permission{
		{action: "ecs:DescribeTaskDefinition", resource: "*", sid: "Definitions", try: d.tryDescribeDefinition},
		{action: "ecs:ListTaskDefinitionFamilies", resource: "*", sid: "Definitions", try: d.tryListFamilies},
		{action: "ecs:ListTaskDefinitions", resource: "*", sid: "Definitions", try: d.tryListDefinitions},
		{action: "ecs:RegisterTaskDefinition", resource: "*", sid: "Definitions"},
		{action: "ecs:DeregisterTaskDefinition", resource: "*", sid: "Definitions"},
		{action: "ecs:DeleteTaskDefinitions", resource: definition, sid: "OwnDefinitions"},
		{action: "ecs:RunTask", resource: definition, sid: "Run", context: inCluster},
		{
			action: "ecs:TagResource", resource: d.taskARN(), sid: "TagWhatIsRun",
			context: map[string]string{"ecs:CreateAction": "RunTask"},
		},
		{action: "ecs:ListTasks", resource: "*", sid: "ListTasks", context: inCluster, try: d.tryListTasks},
		{action: "ecs:DescribeTasks", resource: d.taskARN(), sid: "Tasks", try: d.tryDescribeTasks},
		{action: "ecs:StopTask", resource: d.taskARN(), sid: "Tasks"},
	}
	if d.cfg.TaskImage != "" && d.cfg.TaskRoleARN != "" && !d.cfg.NoExec {
		out = append(out,
			permission{action: "ecs:ExecuteCommand", resource: d.cluster, sid: "Sessions"},
			permission{action: "ecs:ExecuteCommand", resource: d.taskARN(), sid: "Sessions"})
	}
	return out
}

func (d *doctor) wantedRoles() []permission {
	var out []permission
	pass := func(role, sid, service string) {
		if role != "" {
			out = append(out, permission{
				action: "iam:PassRole", resource: role, sid: sid,
				context: map[string]string{"iam:PassedToService": service},
			})
		}
	}
	pass(d.cfg.ExecutionRoleARN, "RolesOfTasks", serviceTasks)
	pass(d.cfg.TaskRoleARN, "RolesOfTasks", serviceTasks)
	pass(d.cfg.EBS.RoleARN, "RoleOfVolumes", serviceVolumes)
	return out
}

func (d *doctor) wantedSecrets() []permission {
	// A name that no secret has, where all of a node's are.
	name := payload.Prefix(d.cfg.NodeIdentity) + "pod/doctor"
	secret := d.arn("secretsmanager", "secret:"+name+"-000000")
	out := []permission{
		{action: "secretsmanager:ListSecrets", resource: "*", sid: "ListSecrets", try: d.tryListSecrets},
		{
			action: "secretsmanager:DescribeSecret", resource: secret, sid: "Secrets",
			try: func(ctx context.Context) error { return d.tryDescribeSecret(ctx, name) },
		},
		{
			action: "secretsmanager:GetSecretValue", resource: secret, sid: "SaltOfNamesAndFilesOfPods",
			try: func(ctx context.Context) error { return d.tryReadSecret(ctx, name) },
		},
	}
	for _, action := range []string{"CreateSecret", "PutSecretValue", "TagResource", "DeleteSecret"} {
		out = append(out, permission{action: "secretsmanager:" + action, resource: secret, sid: "Secrets"})
	}
	return out
}

func (d *doctor) wantedRest() []permission {
	images := d.arn("ecr", "repository/burstlet") // any does
	out := []permission{
		{action: "ecr:GetAuthorizationToken", resource: "*", sid: "LogInToECR", try: d.tryLogin, optional: true},
		{action: "ecr:BatchGetImage", resource: images, sid: "LookImagesUp", optional: true},
		{action: "ecr:GetDownloadUrlForLayer", resource: images, sid: "LookImagesUp", optional: true},
	}
	if d.cfg.LogGroup != "" {
		out = append(out, permission{
			action: "logs:GetLogEvents", resource: d.arn("logs",
				"log-group:"+d.cfg.LogGroup+":log-stream:"+unknownStream), sid: "Logs", try: d.tryReadLogs,
		})
	}
	if d.cfg.EventQueueURL != "" {
		queue := d.queueARN()
		out = append(out,
			permission{action: "sqs:ReceiveMessage", resource: queue, sid: "Events"},
			permission{action: "sqs:DeleteMessage", resource: queue, sid: "Events"})
	}
	return out
}

// queueARN is that of the queue of task events.
func (d *doctor) queueARN() string {
	return d.arn("sqs", d.cfg.EventQueueURL[strings.LastIndex(d.cfg.EventQueueURL, "/")+1:])
}

// lacks is the finding of a permission that is missing.
func (d *doctor) lacks(p permission) backend.Finding {
	advice := awscall.ControllerPolicy + " grants it"
	if p.sid != "" {
		advice += " (statement " + p.sid + ")"
	}
	f := backend.Bad("AWS permission", fmt.Sprintf("%s may not %s on %s", d.caller, p.action, p.resource), advice)
	f.Warn = p.optional
	return f
}

// permissions tries what only reads, and has IAM simulate the rest where it may.
func (d *doctor) permissions(ctx context.Context) {
	const what = "AWS permissions"
	wanted := d.wanted()
	var changing []permission
	allowed, missing := 0, 0
	for _, p := range wanted {
		if p.try == nil {
			changing = append(changing, p)
			continue
		}
		switch err := p.try(ctx); {
		case err == nil:
			allowed++
		case isDeniedCall(err):
			missing++
			d.add(d.lacks(p))
		default:
			missing++
			d.add(backend.Bad(what, p.action+": "+plainError(err), adviceOn(err)))
		}
	}
	if missing == 0 {
		d.add(backend.Good(what, fmt.Sprintf("all %d that read are there", allowed)))
	}
	d.checkQueue(ctx)
	d.checkBucket(ctx)
	d.simulate(ctx, changing)
}

// simulate asks IAM whether the caller may do what cannot be tried.
func (d *doctor) simulate(ctx context.Context, wanted []permission) {
	const what = "AWS permissions"
	principal, err := d.principal(ctx)
	missing := 0
	for i := 0; i < len(wanted) && err == nil; i++ {
		var allowed bool
		if allowed, err = d.simulated(ctx, principal, wanted[i]); err == nil && !allowed {
			missing++
			d.add(d.lacks(wanted[i]))
		}
	}
	switch {
	case err != nil:
		var actions []string
		for _, p := range wanted {
			if !slices.Contains(actions, p.action) {
				actions = append(actions, p.action)
			}
		}
		why := plainError(err)
		if isDeniedCall(err) {
			why = "the caller may not iam:SimulatePrincipalPolicy"
		}
		d.add(backend.Doubtful(what, "not known of what changes something, which is not "+
			"tried ("+why+"): "+strings.Join(actions, ", "),
			"compare them with "+awscall.ControllerPolicy+"; with iam:SimulatePrincipalPolicy and iam:GetRole "+
				"on itself doctor asks IAM"))
	case missing == 0:
		d.add(backend.Good(what, fmt.Sprintf("all %d that change something are there, as IAM simulates them",
			len(wanted))))
	}
}

// principal is the ARN of whose policies count: of a session, the role's.
func (d *doctor) principal(ctx context.Context) (string, error) {
	_, resource, ok := strings.Cut(d.caller, ":assumed-role/")
	if !ok {
		return d.caller, nil
	}
	name, _, _ := strings.Cut(resource, "/")
	role, err := d.role(ctx, name)
	return role.ARN, err
}

func (d *doctor) simulated(ctx context.Context, principal string, p permission) (bool, error) {
	form := url.Values{
		"PolicySourceArn": {principal}, "ActionNames.member.1": {p.action}, "ResourceArns.member.1": {p.resource},
	}
	n := 0
	for key, value := range p.context {
		n++
		at := fmt.Sprintf("ContextEntries.member.%d.", n)
		form.Set(at+"ContextKeyName", key)
		form.Set(at+"ContextKeyType", "string")
		form.Set(at+"ContextKeyValues.member.1", value)
	}
	var out struct {
		XMLName   xml.Name `xml:"SimulatePrincipalPolicyResponse"`
		Decisions []string `xml:"SimulatePrincipalPolicyResult>EvaluationResults>member>EvalDecision"`
	}
	if _, err := d.query.query(ctx, "iam", versionIAM, "SimulatePrincipalPolicy", form, &out); err != nil {
		return false, err
	}
	if len(out.Decisions) == 0 {
		return false, fmt.Errorf("iam:SimulatePrincipalPolicy: no decision on %s", p.action)
	}
	return !slices.ContainsFunc(out.Decisions, func(s string) bool { return s != "allowed" }), nil
}
