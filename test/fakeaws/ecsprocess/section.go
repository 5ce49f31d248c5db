package ecsprocess

import (
	"fmt"
	"strings"

	"github.com/burstlet/burstlet/test/parts/images"
)

// What a node is told of its account.
const (
	LogGroup = "/burstlet/test"
	Queue    = "burstlet-events"
	// Bucket is one of S3, for who starts the process with --bucket.
	Bucket  = "burstlet-payloads"
	roleARN = "arn:aws:iam::123456789012:role/"
)

// Access are credentials, as variables of the environment, for a server that takes
// any; nothing of this machine's is used.
func Access() []string {
	return []string{
		"AWS_ACCESS_KEY_ID=AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY=not-a-secret", "AWS_EC2_METADATA_DISABLED=true",
	}
}

// Section is the value of backend in burstlet's configuration, in YAML of one line;
// more are further members of backend.ecs, such as "refresh: 5s".
func (p *Process) Section(more ...string) string {
	members := append([]string{
		"region: us-east-1", "cluster: default", "subnets: [subnet-a, subnet-b]",
		fmt.Sprintf("executionRoleARN: %q", roleARN+"execution"), fmt.Sprintf("taskRoleARN: %q", roleARN+"task"),
		fmt.Sprintf("taskImage: %q", images.TaskRef), fmt.Sprintf("logGroup: %q", LogGroup),
		fmt.Sprintf("endpoint: %q", p.URL),
	}, more...)
	if p.QueueURL != "" {
		members = append(members, fmt.Sprintf("eventQueueURL: %q", p.QueueURL))
	}
	return "{type: ecs, ecs: {" + strings.Join(members, ", ") + "}}"
}
