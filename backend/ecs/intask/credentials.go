package intask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Where ECS gives a container the credentials of its task role (ECS developer
// guide, "Task IAM role").
const (
	envCredentials  = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"
	credentialsHost = "http://169.254.170.2"
)

// Bounds of one HTTP call.
const (
	callTimeout = 10 * time.Second
	maxAnswer   = 1 << 20
)

// credentials fetches those of the task role.
func (t Task) credentials(ctx context.Context) (aws.Credentials, error) {
	path := t.Env(envCredentials)
	if path == "" {
		return aws.Credentials{}, errors.New(
			"the task has no role: set backend.ecs.taskRoleARN, with deploy/aws/task-role-policy.json",
		)
	}
	host := t.CredentialsHost
	if host == "" {
		host = credentialsHost
	}
	var out struct {
		AccessKeyID     string `json:"AccessKeyId"`
		SecretAccessKey string `json:"SecretAccessKey"`
		Token           string `json:"Token"`
	}
	if err := t.getJSON(ctx, host+path, &out); err != nil {
		return aws.Credentials{}, fmt.Errorf("get the task role's credentials: %w", err)
	}
	return aws.Credentials{
		AccessKeyID: out.AccessKeyID, SecretAccessKey: out.SecretAccessKey, SessionToken: out.Token,
	}, nil
}

// getJSON fetches and decodes; its errors hold nothing of the answer.
func (t Task) getJSON(ctx context.Context, url string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	body, status, err := t.call(req, maxAnswer)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("answered with status %d", status)
	}
	if json.Unmarshal(body, into) != nil {
		return errors.New("the answer is not what was expected")
	}
	return nil
}

// call makes one request, and reads so much of its answer.
func (t Task) call(req *http.Request, most int64) (body []byte, status int, err error) {
	client := t.HTTPClient
	if client == nil {
		// No proxy: HTTP_PROXY in the environment of a container is the pod's.
		client = &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, DisableKeepAlives: true}}
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	body, err = io.ReadAll(io.LimitReader(resp.Body, most))
	return body, resp.StatusCode, errors.Join(err, resp.Body.Close())
}
