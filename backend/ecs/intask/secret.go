package intask

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend/pause"
)

// envRegion is set by Fargate in every container.
const envRegion = "AWS_REGION"

// EnvEndpoint is the URL of a test server instead of Secrets Manager and S3.
const EnvEndpoint = "BURSTLET_SECRETS_ENDPOINT"

// Tries of one call: a role that was just made, or a new network interface, takes
// a moment. ECS bounds the task's start itself.
const (
	secretTries = 8
	firstPause  = 500 * time.Millisecond
	maxPause    = 10 * time.Second
)

// errFinal is in the chain of an error that trying again does not mend,
// errNoSecret in that of one about a secret that is not there.
var (
	errFinal    = errors.New("final")
	errNoSecret = fmt.Errorf("there is no such secret: %w", errFinal)
)

// patiently makes a call until it succeeds, or to no end.
func patiently[T any](
	ctx context.Context, t Task, call func(context.Context, string) (T, error), name string,
) (T, error) {
	wait := firstPause
	for try := 1; ; try++ {
		value, err := call(ctx, name)
		if err == nil || try == secretTries || errors.Is(err, errFinal) {
			return value, err
		}
		t.Log.Printf("try %d: %v", try, err)
		if pause.For(ctx, wait) != nil {
			return value, err
		}
		wait = min(2*wait, maxPause)
	}
}

// getSecret is Secrets Manager API, GetSecretValue.
func (t Task) getSecret(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, status, err := t.callService(ctx, service{"secretsmanager", "1.1", "secretsmanager.GetSecretValue"},
		map[string]string{"SecretId": name})
	if err != nil {
		return "", fmt.Errorf("get secret %s: %w", name, err)
	}
	return secretIn(name, status, answer)
}

func secretIn(name string, status int, answer []byte) (string, error) {
	var out struct {
		SecretString *string `json:"SecretString"`
		Type         string  `json:"__type"`
		Message      string  `json:"message"`
		OldMessage   string  `json:"Message"`
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		return "", fmt.Errorf("get secret %s: status %d without an answer", name, status)
	}
	switch {
	case status == http.StatusOK && out.SecretString != nil:
		return *out.SecretString, nil
	case status == http.StatusOK:
		return "", fmt.Errorf("get secret %s: it is no text: %w", name, errFinal)
	case status == http.StatusBadRequest && bytes.Contains([]byte(out.Type), []byte("ResourceNotFound")):
		// It was deleted with its pod: nobody waits for this task any more.
		return "", fmt.Errorf("get secret %s: %s: %w", name, out.Type, errNoSecret)
	default:
		return "", fmt.Errorf("get secret %s: status %d: %s: %s%s", name, status, out.Type, out.Message, out.OldMessage)
	}
}

// domainOf is the DNS domain of a region's partition.
func domainOf(region string) string {
	switch {
	case strings.HasPrefix(region, "cn-"):
		return "amazonaws.com.cn"
	case strings.HasPrefix(region, "eusc-"):
		return "amazonaws.eu"
	}
	return "amazonaws.com"
}
