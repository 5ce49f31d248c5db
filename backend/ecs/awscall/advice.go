package awscall

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/aws/smithy-go"
)

// The policies of deploy/aws: ControllerPolicy is that of burstlet's own process,
// TaskRolePolicy that of the tasks' role, ExecutionRolePolicy that of their execution role.
const (
	ControllerPolicy    = "deploy/aws/controller-policy.json"
	TaskRolePolicy      = "deploy/aws/task-role-policy.json"
	ExecutionRolePolicy = "deploy/aws/task-execution-role-policy.json"
)

const serviceLinkedRole = "the account lacks the role AWSServiceRoleForECS, or has just got it: aws iam " +
	"create-service-linked-role --aws-service-name ecs.amazonaws.com, then wait some minutes"

// adviceByText says what to check, by the text of AWS's answer. The texts are
// undocumented: where none is recognised there is no advice.
var adviceByText = []struct{ text, advice string }{
	{
		"limit on the number of vcpus",
		`the account's quota is used up: ask for more under Service Quotas, AWS Fargate, "vCPU resource count"`,
	},
	{"limit on the number of tasks", `the account's quota is used up: ask for more under Service Quotas, AWS Fargate`},
	{"cluster not found", "look at cluster and region in the node's configuration (backend.ecs)"},
	{"subnet", "look at subnets in the node's configuration (backend.ecs) and at the pod's annotation " +
		"ecs.burstlet.dev/subnets"},
	{"security group", "look at securityGroups in the node's configuration (backend.ecs) and at the pod's " +
		"annotation ecs.burstlet.dev/security-groups"},
	{"service linked role", serviceLinkedRole},
	{"service-linked role", serviceLinkedRole},
	{"assume the role", "the role must exist and trust ecs-tasks.amazonaws.com: look at executionRoleARN and " +
		"taskRoleARN (backend.ecs)"},
	{"role is not valid", "look at executionRoleARN and taskRoleARN in the node's configuration (backend.ecs)"},
	{"capacity provider", "FARGATE_SPOT must be associated with the cluster (ECS API, PutClusterCapacityProviders)"},
}

// isDenied finds in AWS's text what was denied: "User: … is not authorized to
// perform: ecs:RunTask on resource: arn:…".
var isDenied = regexp.MustCompile(`not authorized to perform: ([a-z0-9-]+:[A-Za-z]+)(?: on resource: (\S+))?`)

// advised adds to an answer of AWS's what to do about it.
func advised(err error, api smithy.APIError) error {
	if advice := adviceFor(err, api); advice != "" {
		return fmt.Errorf("%w (%s)", err, advice)
	}
	return err
}

func adviceFor(err error, api smithy.APIError) string {
	if strings.HasPrefix(api.ErrorCode(), "AccessDenied") {
		if isDenied.MatchString(api.ErrorMessage()) {
			return ControllerPolicy + " grants it"
		}
		var op *smithy.OperationError
		if errors.As(err, &op) {
			return fmt.Sprintf("%s grants %s:%s", ControllerPolicy,
				strings.ToLower(strings.ReplaceAll(op.Service(), " ", "")), op.Operation())
		}
	}
	text := strings.ToLower(api.ErrorMessage())
	for _, a := range adviceByText {
		if strings.Contains(text, a.text) {
			return a.advice
		}
	}
	return ""
}

// StartAdvice adds to ECS's reason why a container did not start which policy the
// execution role needs, where the reason is a missing permission.
func StartAdvice(why string) string {
	if strings.Contains(why, "AccessDenied") || isDenied.MatchString(why) {
		return why + " (" + ExecutionRolePolicy + " grants what the execution role needs)"
	}
	return why
}
