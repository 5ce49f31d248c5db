package ecs

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// Why variables with a source are refused. A definition is readable by whoever
// may describe it, is never deleted by us, and is shared by all pods of one
// template, so what differs between them has no place in it.
const (
	whySecretEnv    = "a Secret's values would stand in the task definition in the clear; that is not done, and there is no other way yet: remove it"
	whyConfigMapEnv = "variables from a ConfigMap are not possible on Fargate yet: write the value into the pod"
	whyAddressEnv   = "the address of a Fargate task is not known before it runs: find it inside the container, from ECS_CONTAINER_METADATA_URI_V4"
	whyFieldEnv     = "variables from fields of the pod are not possible on Fargate yet: write the value into the pod"
	whyResourceEnv  = "variables from resources of a container are not possible on Fargate yet: write the value into the pod"
	whyFileEnv      = "volumes, and variables from files in them, are not possible on Fargate yet: write the value into the pod"
	whyUnknownEnv   = "this source is newer than this backend: write the value into the pod"
)

// envValues takes literal values.
func envValues(path string, value any, _ string) []refusal {
	var out []refusal
	env, _ := value.([]corev1.EnvVar)
	for i, e := range env {
		at := fmt.Sprintf("%s[%d]", path, i)
		if e.ValueFrom != nil {
			field, why := valueSource(e.ValueFrom)
			out = append(out, refusal{Field: at + ".valueFrom" + field, Why: why})
		}
		if e.Name == identityEnv {
			out = append(out, refusal{Field: at + ".name", Why: identityEnv + " is burstlet's own: use another name"})
		}
	}
	return out
}

func valueSource(from *corev1.EnvVarSource) (field, why string) {
	switch {
	case from.SecretKeyRef != nil:
		return ".secretKeyRef", whySecretEnv
	case from.ConfigMapKeyRef != nil:
		return ".configMapKeyRef", whyConfigMapEnv
	case from.FieldRef != nil && isAddress(from.FieldRef.FieldPath):
		return ".fieldRef", whyAddressEnv
	case from.FieldRef != nil:
		return ".fieldRef", whyFieldEnv
	case from.ResourceFieldRef != nil:
		return ".resourceFieldRef", whyResourceEnv
	case from.FileKeyRef != nil:
		return ".fileKeyRef", whyFileEnv
	default:
		return "", whyUnknownEnv
	}
}

func isAddress(path string) bool {
	return strings.HasPrefix(path, "status.podIP") || strings.HasPrefix(path, "status.hostIP")
}

// envSources takes none.
func envSources(path string, value any, _ string) []refusal {
	var out []refusal
	sources, _ := value.([]corev1.EnvFromSource)
	for i, s := range sources {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case s.SecretRef != nil:
			out = append(out, refusal{Field: at + ".secretRef", Why: whySecretEnv})
		case s.ConfigMapRef != nil:
			out = append(out, refusal{Field: at + ".configMapRef", Why: whyConfigMapEnv})
		default:
			out = append(out, refusal{Field: at, Why: whyUnknownEnv})
		}
	}
	return out
}

// literals makes sure that no value of a Secret reaches a definition, whoever
// let the pod come this far. Errors: Unsupported.
func literals(pod *corev1.PodSpec) error {
	for _, list := range []struct {
		field      string
		containers []corev1.Container
	}{{"initContainers", pod.InitContainers}, {"containers", pod.Containers}} {
		for i, c := range list.containers {
			at := fmt.Sprintf("spec.%s[%d]", list.field, i)
			refused := append(envValues(at+".env", c.Env, ""), envSources(at+".envFrom", c.EnvFrom, "")...)
			if len(refused) > 0 {
				return backend.Errorf(backend.ErrUnsupported, "%s: %s", refused[0].Field, refused[0].Why)
			}
		}
	}
	return nil
}
