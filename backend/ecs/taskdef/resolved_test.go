package taskdef

import (
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/burstlet/burstlet/backend"
)

// refsOf are where a store would have put the payloads of a launch.
func refsOf(spec backend.LaunchSpec) Refs {
	arn := func(s string) string {
		return "arn:aws:secretsmanager:eu-central-1:123456789012:secret:burstlet/n/" + s + "-AbCdEf"
	}
	refs := Refs{PullARNs: map[string]string{}}
	if len(SecretEnv(spec)) > 0 {
		refs.EnvARN = arn("env")
	}
	shared, own := Files(spec)
	if len(shared) > 0 {
		refs.FilesARNs = []string{arn("files")}
	}
	if len(own)+len(shared) > 0 {
		refs.PodName, refs.PodKey, refs.PodStored = "burstlet/n/pod/"+
			string(spec.Pod.UID), "key-of-"+string(spec.Pod.UID), len(own) > 0
	}
	if len(shared) > 0 {
		refs.FilesTag = "tagtagta"
	}
	for name, login := range PullLogins(spec) {
		refs.PullARNs[name] = arn("pull-" + aws.ToString(&login.Username))
	}
	return refs
}

// anImage is what every image says of itself, in these tests.
var anImage = ImageConfig{
	Entrypoint: []string{"/entry"}, Cmd: []string{"serve"}, User: "nobody:nogroup",
	Env: []string{"PATH=/bin", "HOME=/srv"}, StopSignal: "SIGQUIT",
}

// imagesFor are the images of a launch.
func imagesFor(spec backend.LaunchSpec) Images {
	out := Images{}
	for _, c := range spec.Containers {
		out[c.Container.Name] = anImage
	}
	return out
}
