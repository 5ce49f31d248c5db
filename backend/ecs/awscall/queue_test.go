package awscall

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/smithy-go"

	"github.com/burstlet/burstlet/backend"
)

// TestWhoWaitsInAQueue: callers get tokens in their order; who could not get one in time fails at
// once, and a token that nobody takes is the next one's.
func TestWhoWaitsInAQueue(t *testing.T) {
	for name, tt := range map[string]struct {
		burst   int
		callers []time.Duration // how long each waits at most; 0 is for ever
		want    []string
	}{
		"within the burst": {3, []time.Duration{0, 0, 0}, []string{"0s", "0s", "0s"}},
		"beyond it":        {1, []time.Duration{0, 0, 0}, []string{"0s", "1s", "2s"}},
		"one in time":      {1, []time.Duration{0, 2 * time.Second}, []string{"0s", "1s"}},
		"one too late":     {1, []time.Duration{0, time.Second / 2}, []string{"0s", "too long after 0s"}},
		"behind one too late": {
			1, []time.Duration{0, time.Second / 2, 0}, []string{"0s", "too long after 0s", "1s"},
		},
		"two ahead, a moment too late": {
			1, []time.Duration{0, 0, 1900 * time.Millisecond}, []string{"0s", "1s", "too long after 0s"},
		},
		"a token at its last moment": {1, []time.Duration{0, time.Second}, []string{"0s", "1s"}},
		"the burst, then in time": {
			2, []time.Duration{0, 0, time.Second, time.Second}, []string{"0s", "0s", "1s", "too long after 0s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := NewQueue(1, tt.burst)
				begun, got := time.Now(), make([]string, len(tt.callers))
				done := make(chan struct{})
				for i, limit := range tt.callers {
					ctx, cancel := t.Context(), context.CancelFunc(func() {})
					if limit > 0 {
						ctx, cancel = context.WithTimeout(ctx, limit)
					}
					go func() {
						defer func() { cancel(); done <- struct{}{} }()
						err := q.Wait(ctx)
						got[i] = fmt.Sprint(time.Since(begun))
						if err != nil {
							got[i] = "too long after " + got[i]
						}
					}()
					synctest.Wait() // they come one after the other
				}
				for range tt.callers {
					<-done
				}
				if strings.Join(got, ", ") != strings.Join(tt.want, ", ") || q.Waiting() != 0 {
					t.Errorf("%q, want %q; %d wait", got, tt.want, q.Waiting())
				}
			})
		})
	}
}

// TestWaitersLeave: the token of one that leaves is not lost.
func TestWaitersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(1, 1)
		if err := q.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		for range 5 {
			go func() { left <- q.Wait(ctx) }()
		}
		synctest.Wait()
		if q.Waiting() != 5 {
			t.Errorf("%d wait", q.Waiting())
		}
		cancel()
		for range 5 {
			if err := <-left; !errors.Is(err, context.Canceled) {
				t.Errorf("left with %v", err)
			}
		}
		if err := q.Wait(t.Context()); err != nil || time.Since(begun) > time.Second {
			t.Errorf("the next waited %v, %v", time.Since(begun), err)
		}
	})
}

// refusing is a bucket that gives no token.
type refusing struct{ err error }

// Wait fails.
func (r refusing) Wait(context.Context) error { return r.err }

// TestWhatAWaitIsThatFails: nothing was sent; who left is told apart from a queue that is too long.
func TestWhatAWaitIsThatFails(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	late := refusing{errTooLong}
	for name, tt := range map[string]struct {
		gone    bool
		buckets []Limiter
		class   error
	}{
		"no bucket":              {false, nil, nil},
		"a token of each":        {false, []Limiter{refusing{}, refusing{}}, nil},
		"the first is too long":  {false, []Limiter{late, refusing{}}, backend.ErrThrottled},
		"the second is too long": {false, []Limiter{refusing{}, late}, backend.ErrThrottled},
		"whoever asks is gone":   {true, []Limiter{refusing{context.Canceled}}, backend.ErrUnavailable},
		"gone and too long":      {true, []Limiter{late}, backend.ErrUnavailable},
	} {
		ctx := t.Context()
		if tt.gone {
			ctx = gone
		}
		err := Wait(ctx, tt.buckets...)
		if tt.class == nil {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.Is(err, tt.class) || !errors.Is(err, ErrNotSent) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAdviceByWords: what to do about an answer of AWS, where its text is known.
func TestAdviceByWords(t *testing.T) {
	answer := func(code, text string) error {
		return &smithy.OperationError{
			ServiceID: "Secrets Manager", OperationName: "GetSecretValue", Err: &smithy.GenericAPIError{
				Code:    code,
				Message: text,
			},
		}
	}
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"denied, and says what": {
			answer("AccessDeniedException", "User: u is not authorized to perform: ecs:RunTask on resource: arn:x"),
			ControllerPolicy + " grants it",
		},
		"denied without a word": {
			answer("AccessDenied", "Access Denied"), ControllerPolicy + " grants secretsmanager:GetSecretValue",
		},
		"too many vCPUs": {
			answer("X", "You've reached the limit on the number of vCPUs you can run"), `"vCPU resource count"`,
		},
		"too many tasks": {
			answer("X", "You've reached the limit on the number of tasks"), "ask for more under Service Quotas",
		},
		"no cluster": {
			answer("ClusterNotFoundException", "Cluster not found."), "look at cluster and region",
		},
		"no subnet": {
			answer("InvalidParameterException", "The subnet ID 'subnet-1' does not exist"), "ecs.burstlet.dev/subnets",
		},
		"no security group": {
			answer("InvalidParameterException", "The security group 'sg-1' does not exist"), "ecs.burstlet.dev/security-groups",
		},
		"no service linked role": {
			answer("InvalidParameterException", "Unable to assume the service linked role."), "create-service-linked-role",
		},
		"a role that is not trusted": {
			answer("ClientException", "ECS was unable to assume the role 'arn:x'"),
			"must exist and trust ecs-tasks.amazonaws.com",
		},
		"a role that is none": {answer("ClientException", "Role is not valid"), "look at executionRoleARN"},
		"no Spot": {
			answer("InvalidParameterException", "The specified capacity provider was not found"), "FARGATE_SPOT must be",
		},
		"anything else":         {answer("ServerException", "Service unavailable"), ""},
		"a denial of something": {answer("ServerException", "not authorized to perform: ecs:RunTask"), ""},
	} {
		var api smithy.APIError
		if !errors.As(tt.err, &api) {
			t.Fatal(name)
		}
		got := adviceFor(tt.err, api)
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
		said := advised(tt.err, api)
		if !errors.Is(said, tt.err) || got != "" && said.Error() != tt.err.Error()+" ("+got+")" {
			t.Errorf("%s: %v", name, said)
		}
	}
	const policy = " (" + ExecutionRolePolicy + " grants what the execution role needs)"
	for why, advised := range map[string]bool{
		"":                              false,
		"CannotPullContainerError: 404": false,
		"AccessDeniedException: no":     true,
		"fetching secret: AccessDenied": true,
		"x is not authorized to perform: logs:CreateLogStream because no policy allows it": true,
		"x is not authorized to perform: something":                                        false,
	} {
		want := why
		if advised {
			want += policy
		}
		if got := StartAdvice(why); got != want {
			t.Errorf("%q became %q", why, got)
		}
	}
}
