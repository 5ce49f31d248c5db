package taskdef

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// What a container runs is said by the pod and its image as the kubelet has it.
func TestArgv(t *testing.T) {
	for _, tc := range []struct{ command, args, entrypoint, cmd, want string }{
		{"", "", "e", "c d", "e c d"},
		{"", "a b", "e", "c", "e a b"},
		{"x y", "", "e", "c", "x y"},
		{"x", "a", "e", "c", "x a"},
		{"", "", "", "c", "c"},
		{"", "a", "", "c", "a"},
		{"", "", "", "", ""},
	} {
		c := backend.ContainerSpec{Container: corev1.Container{
			Name: "app", Command: strings.Fields(tc.command), Args: strings.Fields(tc.args),
		}}
		image := Images{"app": {Entrypoint: strings.Fields(tc.entrypoint), Cmd: strings.Fields(tc.cmd)}}
		if got := strings.Join(Argv(c, image), " "); got != tc.want {
			t.Errorf("%+v: %q", tc, got)
		}
	}
}

func TestECRRegion(t *testing.T) {
	for image, want := range map[string]string{
		"123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/app:1":           "eu-west-1",
		"123456789012.dkr.ecr-fips.us-east-1.amazonaws.com/app@sha256:0123": "us-east-1",
		"123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/app":              "cn-north-1",
		"123456789012.dkr.ecr.eusc-de-east-1.amazonaws.eu/app":              "eusc-de-east-1",
		"123456789012.dkr-ecr.eu-west-1.on.aws/team/app:1":                  "eu-west-1", // with IPv6 too
		"123456789012.dkr-ecr-fips.us-gov-west-1.on.aws/app":                "us-gov-west-1",
		"123456789012.dkr-ecr.cn-north-1.on.amazonwebservices.com.cn/app":   "cn-north-1",
		"123456789012.dkr-ecr.eusc-de-east-1.on.amazonwebservices.eu/app":   "eusc-de-east-1",
		"123456789012.dkr-ecr.eu-west-1.amazonaws.com/app":                  "", // of neither kind
		"123456789012.dkr.ecr.eu-west-1.on.aws/app":                         "",
		"12345678901.dkr.ecr.eu-west-1.amazonaws.com/app":                   "",
		"x123456789012.dkr.ecr.eu-west-1.amazonaws.com/app":                 "",
		"123456789012.dkr.ecr.eu-west-1.amazonaws.com:443/app":              "",
		"123456789012xdkr.ecr.eu-west-1.amazonaws.com/app":                  "",
		"public.ecr.aws/docker/library/busybox":                             "",
		"123456789012.dkr.ecr.eu-west-1.amazonaws.com.evil.example/app":     "",
		"busybox": "",
	} {
		if got := ECRRegion(image); got != want {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
	}
}
