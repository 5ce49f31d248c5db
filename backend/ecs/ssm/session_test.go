package ssm_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/burstlet/burstlet/backend/class"
	"github.com/burstlet/burstlet/backend/ecs/ssm"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
)

var creds = credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "not-a-secret", "")

// task is a server with a task that takes commands.
type task struct {
	*testing.T
	client *awsecs.Client
	arn    string
}

// echo is a command that gives back what it is given.
func echo(_ context.Context, call stub.ExecCall) (int, error) {
	_, err := io.Copy(call.Stdout, call.Stdin)
	return 0, err
}

func start(t *testing.T, sessions stub.SessionConfig, run func(context.Context, stub.ExecCall) (int, error)) task {
	t.Helper()
	s := stub.New(stub.Config{Exec: run, Sessions: sessions})
	url, stop, err := s.Start()
	must(t, err)
	t.Cleanup(stop)
	client := awsecs.New(awsecs.Options{Region: "us-east-1", BaseEndpoint: &url, Credentials: creds})
	_, err = client.RegisterTaskDefinition(t.Context(), &awsecs.RegisterTaskDefinitionInput{
		Family: aws.String("f"), NetworkMode: types.NetworkModeAwsvpc, Cpu: aws.String("256"), Memory: aws.String("512"),
		RequiresCompatibilities: []types.Compatibility{types.CompatibilityFargate},
		TaskRoleArn:             aws.String("arn:aws:iam::123456789012:role/task"),
		ContainerDefinitions: []types.ContainerDefinition{{
			Name: aws.String("app"), Image: aws.String("busybox:1"), Command: []string{"sleep", "1000"},
		}},
	})
	must(t, err)
	out, err := client.RunTask(t.Context(), &awsecs.RunTaskInput{
		TaskDefinition: aws.String("f"), EnableExecuteCommand: true, LaunchType: types.LaunchTypeFargate,
		NetworkConfiguration: &types.NetworkConfiguration{
			AwsvpcConfiguration: &types.AwsVpcConfiguration{Subnets: []string{"subnet-a"}},
		},
	})
	must(t, err)
	return task{t, client, *out.Tasks[0].TaskArn}
}

// stream asks for a session.
func (k task) stream(command string) ssm.Stream {
	k.Helper()
	out, err := k.client.ExecuteCommand(
		k.Context(), &awsecs.ExecuteCommandInput{Task: &k.arn, Command: &command, Interactive: true},
	)
	must(k.T, err)
	return ssm.Stream{URL: *out.Session.StreamUrl, Token: *out.Session.TokenValue}
}

func (k task) dial(command string) *ssm.Session {
	k.Helper()
	s, err := ssm.Dialer{Region: "us-east-1", Credentials: creds}.Dial(k.Context(), k.stream(command))
	must(k.T, err)
	k.Cleanup(func() { _ = s.Close() })
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", class.Of(err), err)
	}
}

// text is random, of characters that the agent lets pass.
func text(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	for i := range b {
		b[i] = ' ' + b[i]%94
	}
	return b
}

func TestBytesArriveInOrderWhateverBecomesOfFrames(t *testing.T) {
	for name, tt := range map[string]struct {
		faults  stub.FrameFaults
		latency time.Duration
		size    int
	}{
		"nothing happens": {size: 4 << 20},
		"some are lost":   {stub.FrameFaults{Drop: 23}, 0, 100 << 10},
		"some are double": {stub.FrameFaults{Double: 3}, 0, 1 << 20},
		"some overtake":   {stub.FrameFaults{Swap: 4}, 0, 1 << 20},
		"a long way":      {stub.FrameFaults{}, 30 * time.Millisecond, 1 << 20},
		"all of it":       {stub.FrameFaults{Drop: 31, Double: 7, Swap: 5}, 3 * time.Millisecond, 100 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := start(t, stub.SessionConfig{Fast: true, Faults: tt.faults, Latency: tt.latency}, echo)
			s := k.dial("cat")
			sent := text(tt.size)
			var writing sync.WaitGroup
			writing.Go(func() {
				if n, err := s.Write(sent); n != len(sent) || err != nil {
					t.Errorf("wrote %d: %v", n, err)
				}
			})
			got := make([]byte, len(sent))
			begun := time.Now()
			_, err := io.ReadFull(s, got)
			must(t, err)
			writing.Wait()
			t.Logf("%.2f MB/s each way", float64(tt.size)/time.Since(begun).Seconds()/1e6)
			if !bytes.Equal(got, sent) {
				t.Error("something else came back")
			}
		})
	}
}

func TestTheEndOfTheCommandIsTheEndOfTheSession(t *testing.T) {
	k := start(t, stub.SessionConfig{Fast: true}, func(_ context.Context, call stub.ExecCall) (int, error) {
		_, err := io.WriteString(call.Stdout, strings.Join(call.Argv, "|"))
		return 0, err
	})
	s := k.dial(`/bin/say 'a  b' "c" d\ e`)
	got, err := io.ReadAll(s)
	must(t, err)
	if string(got) != "/bin/say|a  b|c|d e" {
		t.Errorf("said %q", got)
	}
	if _, err := s.Write([]byte("x")); class.Of(err) != class.Of(class.ErrUnavailable) {
		t.Errorf("written afterwards: %v", err)
	}
}

func TestTheSizeOfTheTerminalIsTold(t *testing.T) {
	k := start(t, stub.SessionConfig{Fast: true}, func(ctx context.Context, call stub.ExecCall) (int, error) {
		select {
		case size := <-call.Sizes:
			if size.Cols != 132 || size.Rows != 43 {
				t.Errorf("told %v", size)
			}
		case <-ctx.Done():
		}
		return 0, nil
	})
	s := k.dial("vi")
	must(t, s.Resize(132, 43))
	if rest, err := io.ReadAll(s); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestWhatKeepsASessionFromOpeningIsTold(t *testing.T) {
	k := start(t, stub.SessionConfig{Fast: true}, echo)
	d := ssm.Dialer{Region: "us-east-1", Credentials: creds}
	used := k.stream("cat")
	first, err := d.Dial(k.Context(), used)
	must(t, err)
	t.Cleanup(func() { _ = first.Close() })
	wrong := k.stream("cat")
	wrong.Token = "wrong-token-of-a-session"
	for name, tt := range map[string]struct {
		d      ssm.Dialer
		stream ssm.Stream
		want   error
	}{
		"a token used twice":      {d, used, class.ErrUnavailable},
		"a wrong token":           {d, wrong, class.ErrUnavailable},
		"nobody signs":            {ssm.Dialer{}, k.stream("cat"), class.ErrDenied},
		"nobody is there":         {d, ssm.Stream{URL: "ws://127.0.0.1:1", Token: "t"}, class.ErrUnavailable},
		"this is no URL":          {d, ssm.Stream{URL: "http://x/?X-Amz-Signature=secret", Token: "t"}, class.ErrUnavailable},
		"the command cannot be":   {d, k.stream(`sh "`), class.ErrUnavailable},
		"no credentials are here": {ssm.Dialer{Credentials: aws.AnonymousCredentials{}}, k.stream("cat"), class.ErrDenied},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := tt.d.Dial(t.Context(), tt.stream)
			if err == nil { // told on the session
				_, err = s.Read(make([]byte, 1))
				_ = s.Close()
			}
			if class.Of(err) != class.Of(tt.want) {
				t.Errorf("%s: %v", class.Of(err), err)
			}
			if strings.Contains(err.Error(), tt.stream.Token) && len(tt.stream.Token) > 1 ||
				strings.Contains(err.Error(), "secret") {
				t.Errorf("it tells a secret: %v", err)
			}
		})
	}
}

func TestASessionEndsWithItsConnection(t *testing.T) {
	silent := http.Server{
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go func() { _ = silent.Serve(l) }()
	t.Cleanup(func() { _ = silent.Close() })
	_, err = ssm.Dialer{}.Dial(t.Context(), ssm.Stream{URL: "ws://" + l.Addr().String()})
	if class.Of(err) != class.Of(class.ErrUnavailable) {
		t.Errorf("a connection that breaks: %v", err)
	}
	k := start(t, stub.SessionConfig{Fast: true}, echo)
	s := k.dial("cat")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	read := make(chan error, 1)
	go func() {
		_, err := s.Read(make([]byte, 1))
		read <- err
	}()
	must(t, s.Close())
	select {
	case err := <-read:
		if errors.Is(err, os.ErrDeadlineExceeded) || class.Of(err) != class.Of(class.ErrUnavailable) {
			t.Errorf("a read of what was closed: %v", err)
		}
	case <-ctx.Done():
		t.Error("a read goes on after the end")
	}
}
