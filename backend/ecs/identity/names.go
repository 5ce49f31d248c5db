package identity

import (
	"crypto/sha256"
	"encoding/base32"
	"strconv"
	"strings"

	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// StartedByRoot begins the startedBy of every node's tasks.
const StartedByRoot = "burstlet/"

// Names of burstlet's own containers in a task, which OwnPrefix tells from the pod's.
const (
	OwnPrefix = "burstlet-"
	InitName  = OwnPrefix + "init"
	AgentName = OwnPrefix + "agent"
)

// Key names an attempt of a pod.
type Key struct {
	UID     ktypes.UID
	Attempt int
}

// KeyOf is the key of an attempt.
func KeyOf(r backend.Ref) Key { return Key{r.UID, r.Attempt} }

// Hash is a short name for some content, of a-z and 2-7.
func Hash(content []byte) string {
	sum := sha256.Sum256(content)
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))
}

// ClientToken names a launch: same pod and attempt, same token (ECS API, RunTask:
// clientToken, up to 64 characters). try counts definite refusals after which the
// same launch was asked for again with another token.
func ClientToken(uid ktypes.UID, attempt, try int) string {
	return Hash([]byte(string(uid) + "/" + strconv.Itoa(attempt) + "/" + strconv.Itoa(try)))
}

// StartedBy makes a node's identity fit ECS API, RunTask: startedBy: up to 128 of
// letters, digits, / _ and -. A hash keeps apart what is replaced or cut off.
func StartedBy(node string) string {
	const readable, hash = 80, 26
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '/' {
			return r
		}
		return '_'
	}, node)
	return StartedByRoot + Hash([]byte(node))[:hash] + "/" + safe[:min(len(safe), readable)]
}

// TagValue makes a text fit ECS API, Tag: value.
func TagValue(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x80 && strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 "+
			"+-=._:/@", r) {
			return r
		}
		return '_'
	}, s)
	return s[:min(len(s), 256)]
}

// NodeKey is a node's identity as a short part of names: of its secrets and
// families.
func NodeKey(node string) string {
	const chars = 16
	return Hash([]byte(node))[:chars]
}

// FamilyRoot begins the families of every node.
const FamilyRoot = "burstlet-"

// FamilyPrefix begins the families of one node's definitions.
func FamilyPrefix(node string) string { return FamilyRoot + NodeKey(node) + "-" }

// FamilyOf is the family in the ARN of a definition (.../family:revision).
func FamilyOf(arn string) string {
	family, _, _ := strings.Cut(arn[strings.LastIndexByte(arn, '/')+1:], ":")
	return family
}

// LogPrefix is the first part of the names of log streams (ECS developer guide,
// "Using the awslogs log driver": prefix/container/task id).
const LogPrefix = "burstlet"

// LogStream is the name of the log stream of a container of a task.
func LogStream(container, arn string) string {
	return LogPrefix + "/" + container + "/" + arn[strings.LastIndexByte(arn, '/')+1:]
}
