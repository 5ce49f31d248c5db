package ecs

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	corev1 "k8s.io/api/core/v1"
	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// identityEnv is the variable of a task's overrides that says who it is for.
const identityEnv = "BURSTLET_POD"

// startedByRoot begins the startedBy of every node's tasks.
const startedByRoot = "burstlet/"

// identity is what a task is for, as compact JSON in identityEnv.
type identity struct {
	Node       string              `json:"node"`
	UID        ktypes.UID          `json:"uid"`
	Namespace  string              `json:"ns"`
	Name       string              `json:"name"`
	Attempt    int                 `json:"attempt"`
	Containers []containerIdentity `json:"c"`
	// Files tells the files that the pod's shape shared at the launch.
	Files string `json:"f,omitempty"`
	// Disk is the volume that was made for the pod; nil without one.
	Disk *disk `json:"disk,omitempty"`
}

type containerIdentity struct {
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

func identityOf(cfg Config, spec backend.LaunchSpec) identity {
	id := identity{Node: cfg.NodeIdentity, UID: spec.Pod.UID, Namespace: spec.Pod.Namespace, Name: spec.Pod.Name, Attempt: spec.Attempt}
	for _, c := range spec.Containers {
		id.Containers = append(id.Containers, containerIdentity{
			Name: c.Container.Name, Init: c.Init, Sidecar: sidecarSpec(c), Attempt: c.Attempt, Hash: c.Hash,
			Supervised: cfg.TaskImage != "",
			Fallback:   c.Container.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError,
		})
	}
	return id
}

func (id identity) encode() (string, error) {
	b, err := json.Marshal(id)
	if err != nil {
		return "", fmt.Errorf("encode identity: %w", err)
	}
	return string(b), nil
}

// identityIn reads the identity of a task that ECS returned.
func identityIn(t types.Task) (identity, error) {
	var id identity
	if t.Overrides == nil {
		return id, fmt.Errorf("task has no overrides")
	}
	for _, c := range t.Overrides.ContainerOverrides {
		for _, kv := range c.Environment {
			if aws.ToString(kv.Name) != identityEnv {
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
	return id, fmt.Errorf("task has no %s", identityEnv)
}

func (id identity) ref(arn string) backend.Ref {
	return backend.Ref{UID: id.UID, Namespace: id.Namespace, Name: id.Name, Attempt: id.Attempt, ID: arn}
}

// hashed is a short name for some content, of a-z and 2-7.
func hashed(content []byte) string {
	sum := sha256.Sum256(content)
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))
}

// clientToken names a launch: same pod and attempt, same token (ECS API, RunTask:
// clientToken, up to 64 characters). try counts definite refusals after which the
// same launch was asked for again with another token.
func clientToken(uid ktypes.UID, attempt, try int) string {
	return hashed([]byte(string(uid) + "/" + strconv.Itoa(attempt) + "/" + strconv.Itoa(try)))
}

// startedBy makes a node's identity fit ECS API, RunTask: startedBy: up to 128 of
// letters, digits, / _ and -. A hash keeps apart what is replaced or cut off.
func startedBy(node string) string {
	const readable, hash = 80, 26
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '/' {
			return r
		}
		return '_'
	}, node)
	return startedByRoot + hashed([]byte(node))[:hash] + "/" + safe[:min(len(safe), readable)]
}

// tags repeat the identity for people and bills. StopTask deletes them, so nothing
// is read from them.
func (id identity) tags() []types.Tag {
	pair := func(k, v string) types.Tag {
		return types.Tag{Key: aws.String("burstlet/" + k), Value: aws.String(tagValue(v))}
	}
	return []types.Tag{pair("node", id.Node), pair("namespace", id.Namespace), pair("pod", id.Name), pair("uid", string(id.UID))}
}

// tagValue makes a text fit ECS API, Tag: value.
func tagValue(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x80 && strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 +-=._:/@", r) {
			return r
		}
		return '_'
	}, s)
	return s[:min(len(s), 256)]
}
