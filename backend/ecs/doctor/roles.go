package doctor

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
	"github.com/burstlet/burstlet/backend/ecs/payload"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
)

// The services to which roles are passed (ECS developer guide, "IAM roles for Amazon
// ECS").
const (
	serviceTasks   = "ecs-tasks.amazonaws.com"
	serviceVolumes = "ecs.amazonaws.com"
)

// taskRole is a role that burstlet passes on, which it never has itself.
type taskRole struct {
	what, arn, service string
	// policy is the file that grants wanted, what tasks of this configuration need.
	policy string
	wanted []permission
}

type awsRole struct {
	ARN string `xml:"GetRoleResult>Role>Arn"`
	// Trust is the policy, as a URL has it.
	Trust string `xml:"GetRoleResult>Role>AssumeRolePolicyDocument"`
}

// role finds a role by its name, without its path.
func (d *doctor) role(ctx context.Context, name string) (awsRole, error) {
	var out awsRole
	_, err := d.query.query(ctx, "iam", versionIAM, "GetRole", url.Values{"RoleName": {name}}, &out)
	return out, err
}

// roles asks whether the roles of tasks are there, trust ECS, and may do what tasks need.
func (d *doctor) roles(ctx context.Context) {
	var denied, unsimulated []string
	for _, r := range []taskRole{
		{
			what: "execution role", arn: d.cfg.ExecutionRoleARN, service: serviceTasks,
			policy: awscall.ExecutionRolePolicy, wanted: d.wantedOfExecution(),
		},
		{
			what: "task role", arn: d.cfg.TaskRoleARN, service: serviceTasks,
			policy: awscall.TaskRolePolicy, wanted: d.wantedOfTasks(),
		},
		// This one has a policy of AWS's, which differs with the volumes.
		{what: "role of volumes", arn: d.cfg.EBS.RoleARN, service: serviceVolumes},
	} {
		if r.arn == "" {
			continue
		}
		found, err := d.role(ctx, r.arn[strings.LastIndex(r.arn, "/")+1:])
		switch {
		case isDeniedCall(err):
			denied = append(denied, r.what)
		case awscall.IsCode(err, "NoSuchEntity"):
			d.add(backend.Bad(r.what, "there is no "+r.arn, "make it as deploy/aws/README.md says"))
			continue
		case err != nil:
			d.add(backend.Doubtful(r.what, r.arn+": "+plainError(err), "check the network to IAM"))
			continue
		case found.ARN != r.arn:
			d.add(backend.Bad(r.what, "there is no "+r.arn+", but "+found.ARN, "set that ARN in backend.ecs"))
			continue
		default:
			d.add(d.trusted(r, found.Trust))
		}
		if !d.roleMay(ctx, r) {
			unsimulated = append(unsimulated, r.what)
		}
	}
	if len(denied) > 0 {
		d.unchecked = append(d.unchecked, strings.Join(denied, " and ")+" (iam:GetRole)")
	}
	if len(unsimulated) > 0 {
		d.unchecked = append(d.unchecked, "what "+strings.Join(unsimulated, " and ")+" may do (iam:SimulatePrincipalPolicy)")
	}
}

// roleMay has IAM simulate what a role needs; false: the caller may not ask.
func (d *doctor) roleMay(ctx context.Context, r taskRole) bool {
	missing := 0
	for _, p := range r.wanted {
		allowed, err := d.simulated(ctx, r.arn, p)
		switch {
		case isDeniedCall(err):
			return false
		case err != nil:
			d.add(backend.Doubtful(r.what, r.arn+": "+plainError(err), "check the network to IAM"))
			return true
		case !allowed:
			missing++
			f := backend.Bad(r.what, fmt.Sprintf("%s may not %s on %s%s", r.arn, p.action, p.resource, p.without),
				fmt.Sprintf("%s grants it (statement %s)", r.policy, p.sid))
			f.Warn = p.optional
			d.add(f)
		}
	}
	if missing == 0 && len(r.wanted) > 0 {
		d.add(backend.Good(r.what, fmt.Sprintf("it has all %d rights that these tasks need, as IAM simulates them",
			len(r.wanted))))
	}
	return true
}

// wantedOfExecution are what Fargate needs to start a task.
func (d *doctor) wantedOfExecution() []permission {
	var out []permission
	if repository, ok := d.privateRepository(d.cfg.TaskImage); ok {
		out = append(out, permission{
			action: "ecr:GetAuthorizationToken", resource: "*", sid: "ImagesLogin",
			without: ", so that taskImage cannot be pulled",
		})
		for _, action := range []string{
			"ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage",
			"ecr:GetDownloadUrlForLayer",
		} {
			out = append(out, permission{
				action: action, resource: repository, sid: "Images",
				without: ", so that taskImage cannot be pulled",
			})
		}
	}
	if d.cfg.LogGroup != "" {
		stream := d.arn("logs", "log-group:"+d.cfg.LogGroup+":log-stream:"+unknownStream)
		for _, action := range []string{"logs:CreateLogStream", "logs:PutLogEvents"} {
			out = append(out, permission{action: action, resource: stream, sid: "Logs", without: ", so that no task starts"})
		}
	}
	return append(out, permission{
		action: "secretsmanager:GetSecretValue", sid: "SharedSecrets", optional: true,
		resource: d.arn("secretsmanager", "secret:"+payload.Prefix(d.cfg.NodeIdentity)+"shared/doctor-000000"),
		without:  ", so that pods with variables from Secrets or with pull secrets do not start",
	})
}

// privateRepository is the ARN of the repository in ECR that an image is in; false: it is
// elsewhere.
func (d *doctor) privateRepository(image string) (string, bool) {
	region := taskdef.ECRRegion(image)
	host, name, ok := strings.Cut(image, "/")
	if !ok || region == "" {
		return "", false
	}
	account, _, _ := strings.Cut(host, ".")
	name, _, _ = strings.Cut(name, "@")
	name, _, _ = strings.Cut(name, ":")
	aws, _ := partition(region)
	return fmt.Sprintf("arn:%s:ecr:%s:%s:repository/%s", aws, region, account, name), true
}

// wantedOfTasks are what burstlet-agent and the agent of ECS Exec need in a task.
func (d *doctor) wantedOfTasks() []permission {
	if d.cfg.TaskImage == "" {
		return nil
	}
	files := permission{
		action: "secretsmanager:GetSecretValue", sid: "FilesOfPods",
		resource: d.arn("secretsmanager", "secret:"+payload.Prefix(d.cfg.NodeIdentity)+"pod/doctor-000000"),
		without:  ", so that pods with tokens or files do not start",
	}
	if d.cfg.PayloadBucket != "" {
		files.action, files.sid = "s3:GetObject", "PayloadsOfPods"
		files.resource = d.bucketARN() + "/" + d.bucketPrefix() + "pod/doctor"
		files.context = map[string]string{"s3:ResourceAccount": d.account}
	}
	out := []permission{files}
	if d.cfg.EventQueueURL != "" {
		out = append(out, permission{
			action: "sqs:SendMessage", resource: d.queueARN(), sid: "Readiness", optional: true,
			without: ", so that readiness is seen when ECS shows it, up to half a minute late",
		})
	}
	if d.cfg.NoExec {
		return out
	}
	for _, action := range []string{"CreateControlChannel", "CreateDataChannel", "OpenControlChannel", "OpenDataChannel"} {
		out = append(out, permission{
			action: "ssmmessages:" + action, resource: "*", sid: "SessionsOfECSExec", optional: true,
			without: ", so that exec, cp and port-forward fail",
		})
	}
	return out
}
