package identity

import (
	"encoding/json"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/fargate"
)

// Env is the variable of a task's overrides that says who it is for.
const Env = "BURSTLET_POD"

// Task says what a task is for. It stands as compact JSON in Env.
type Task struct {
	Node       string      `json:"node"`
	UID        ktypes.UID  `json:"uid"`
	Namespace  string      `json:"ns"`
	Name       string      `json:"name"`
	Attempt    int         `json:"attempt"`
	Containers []Container `json:"c"`
	// Files tells the files that the pod's shape shared at the launch.
	Files string `json:"f,omitempty"`
	// NoExec: ECS Exec was turned off for it.
	NoExec bool `json:"x,omitempty"`
	// Grace is how long its containers have to end, in seconds; 0 where an earlier version
	// launched it.
	Grace int32 `json:"g,omitempty"`
	// Disk is the volume that was made for the pod; nil without one.
	Disk *fargate.Disk `json:"disk,omitempty"`
}

// Container is one of the pod's containers, in the order of their start.
type Container struct {
	Name    string `json:"n"`
	Init    bool   `json:"i,omitempty"`
	Sidecar bool   `json:"s,omitempty"`
	Attempt int    `json:"a,omitempty"`
	Hash    string `json:"h"`
	// Fallback: its termination message is the end of its log if it fails.
	Fallback bool `json:"l,omitempty"`
	// Supervised: the last line of its log says how it ended.
	Supervised bool `json:"v,omitempty"`
}

// Encode returns the text that stands in Env.
func (id Task) Encode() (string, error) {
	b, err := json.Marshal(id)
	if err != nil {
		return "", fmt.Errorf("encode identity: %w", err)
	}
	return string(b), nil
}

// Read returns what a task that ECS returned is for. It is an error if the task does
// not say so: it is none of burstlet's.
func Read(t types.Task) (Task, error) {
	var id Task
	if t.Overrides == nil {
		return id, fmt.Errorf("task has no overrides")
	}
	for _, c := range t.Overrides.ContainerOverrides {
		for _, kv := range c.Environment {
			if aws.ToString(kv.Name) != Env {
				continue
			}
			if err := json.Unmarshal([]byte(aws.ToString(kv.Value)), &id); err != nil {
				return id, fmt.Errorf("decode identity: %w", err)
			}
			if id.UID == "" || len(id.Containers) == 0 {
				return id, fmt.Errorf("identity is incomplete")
			}
			return id, nil
		}
	}
	return id, fmt.Errorf("task has no %s", Env)
}

// Ref is the attempt of the pod that the task is for; its ID is the task's ARN.
func (id Task) Ref(arn string) backend.Ref {
	return backend.Ref{UID: id.UID, Namespace: id.Namespace, Name: id.Name, Attempt: id.Attempt, ID: arn}
}

// Tags repeat the identity for people and bills. StopTask deletes them, so nothing
// is read from them.
func (id Task) Tags() []types.Tag {
	pair := func(k, v string) types.Tag {
		return types.Tag{Key: aws.String("burstlet/" + k), Value: aws.String(TagValue(v))}
	}
	return []types.Tag{
		pair("node", id.Node), pair("namespace", id.Namespace), pair("pod", id.Name),
		pair("uid", string(id.UID)),
	}
}
