package manifests

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// check refuses what a kubelet refuses of static pods, references to objects of the API,
// and what the engine relies on the API server to refuse. The rest of the API's rules are
// checked where the mirror pod is made.
func check(pod *corev1.Pod) error {
	var errs field.ErrorList
	at := field.NewPath("spec")
	for _, msg := range validation.IsDNS1123Subdomain(pod.Name) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), pod.Name, msg))
	}
	for _, msg := range validation.IsDNS1123Label(pod.Namespace) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "namespace"), pod.Namespace, msg))
	}
	errs = append(errs, references(&pod.Spec, at)...)
	errs = append(errs, choices(&pod.Spec, at)...)
	volumes := sets.New[string]()
	for i := range pod.Spec.Volumes {
		v := at.Child("volumes").Index(i)
		errs = append(errs, name(v.Child("name"), pod.Spec.Volumes[i].Name, volumes)...)
		if !usable(&pod.Spec.Volumes[i].VolumeSource) {
			errs = append(errs, field.Forbidden(v, "a static pod may have volumes of the kinds emptyDir, hostPath, "+
				"downwardAPI, "+
				"image, and projected downwardAPI"))
		}
	}
	names := sets.New[string]()
	for i := range pod.Spec.InitContainers {
		errs = append(errs, container(at.Child("initContainers").Index(i), &pod.Spec.InitContainers[i], names, volumes)...)
	}
	if len(pod.Spec.Containers) == 0 {
		errs = append(errs, field.Required(at.Child("containers"), ""))
	}
	for i := range pod.Spec.Containers {
		errs = append(errs, container(at.Child("containers").Index(i), &pod.Spec.Containers[i], names, volumes)...)
	}
	return errs.ToAggregate()
}

const noReference = "static pods may not reference objects of the API"

// references are to objects that a node cannot read without the API (kubelet:
// PreventStaticPodAPIReferences).
func references(spec *corev1.PodSpec, at *field.Path) (errs field.ErrorList) {
	forbid := func(is bool, names ...string) {
		if is {
			path := at
			for _, n := range names {
				path = path.Child(n)
			}
			errs = append(errs, field.Forbidden(path, noReference))
		}
	}
	forbid(spec.ServiceAccountName != "" || spec.DeprecatedServiceAccount != "", "serviceAccountName")
	forbid(len(spec.ImagePullSecrets) > 0, "imagePullSecrets")
	forbid(len(spec.ResourceClaims) > 0, "resourceClaims")
	forbid(spec.RuntimeClassName != nil, "runtimeClassName")
	forbid(len(spec.EphemeralContainers) > 0, "ephemeralContainers")
	if spec.PriorityClassName != "" && priorityOf(spec) == 0 && *spec.Priority == 0 {
		errs = append(errs, field.Forbidden(at.Child("priorityClassName"), noReference+": write spec.priority beside it"))
	}
	return errs
}

// choices are fields with few values, which the engine decides by.
func choices(spec *corev1.PodSpec, at *field.Path) (errs field.ErrorList) {
	switch spec.RestartPolicy {
	case corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever:
	default:
		errs = append(errs, field.NotSupported(at.Child("restartPolicy"), spec.RestartPolicy,
			[]corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}))
	}
	switch spec.DNSPolicy {
	case corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet, corev1.DNSDefault, corev1.DNSNone:
	default:
		errs = append(errs, field.NotSupported(at.Child("dnsPolicy"), spec.DNSPolicy, []corev1.DNSPolicy{
			corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet, corev1.DNSDefault, corev1.DNSNone,
		}))
	}
	if g := *spec.TerminationGracePeriodSeconds; g < 0 {
		errs = append(errs, field.Invalid(at.Child("terminationGracePeriodSeconds"), g, "must not be negative"))
	}
	if d := spec.ActiveDeadlineSeconds; d != nil && *d < 1 {
		errs = append(errs, field.Invalid(at.Child("activeDeadlineSeconds"), *d, "must be at least 1"))
	}
	return errs
}

// usable volumes need nothing of the API.
func usable(s *corev1.VolumeSource) bool {
	one := *s
	one.EmptyDir, one.HostPath, one.DownwardAPI, one.Image, one.Projected = nil, nil, nil, nil, nil
	if one != (corev1.VolumeSource{}) {
		return false
	}
	if s.Projected != nil {
		for _, p := range s.Projected.Sources {
			if p.DownwardAPI == nil || p.Secret != nil || p.ConfigMap != nil || p.ServiceAccountToken != nil ||
				p.ClusterTrustBundle != nil || p.PodCertificate != nil {
				return false
			}
		}
	}
	return true
}

func name(at *field.Path, name string, seen sets.Set[string]) (errs field.ErrorList) {
	for _, msg := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(at, name, msg))
	}
	if seen.Has(name) {
		errs = append(errs, field.Duplicate(at, name))
	}
	seen.Insert(name)
	return errs
}

func container(at *field.Path, c *corev1.Container, names, volumes sets.Set[string]) (errs field.ErrorList) {
	errs = name(at.Child("name"), c.Name, names)
	if c.Image == "" {
		errs = append(errs, field.Required(at.Child("image"), ""))
	}
	switch c.ImagePullPolicy {
	case corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
	default:
		errs = append(errs, field.NotSupported(at.Child("imagePullPolicy"), c.ImagePullPolicy,
			[]corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}))
	}
	for i, from := range c.EnvFrom {
		if from.SecretRef != nil || from.ConfigMapRef != nil {
			errs = append(errs, field.Forbidden(at.Child("envFrom").Index(i), noReference))
		}
	}
	for i, env := range c.Env {
		if f := env.ValueFrom; f != nil && (f.SecretKeyRef != nil || f.ConfigMapKeyRef != nil) {
			errs = append(errs, field.Forbidden(at.Child("env").Index(i).Child("valueFrom"), noReference))
		}
	}
	return append(errs, mountsAndPorts(at, c, volumes)...)
}

func mountsAndPorts(at *field.Path, c *corev1.Container, volumes sets.Set[string]) (errs field.ErrorList) {
	for i, m := range c.VolumeMounts {
		if !volumes.Has(m.Name) {
			errs = append(errs, field.NotFound(at.Child("volumeMounts").Index(i).Child("name"), m.Name))
		}
		if m.MountPath == "" {
			errs = append(errs, field.Required(at.Child("volumeMounts").Index(i).Child("mountPath"), ""))
		}
	}
	for i, p := range c.Ports {
		for _, msg := range validation.IsValidPortNum(int(p.ContainerPort)) {
			errs = append(errs, field.Invalid(at.Child("ports").Index(i).Child("containerPort"), p.ContainerPort, msg))
		}
	}
	for resource, limit := range c.Resources.Limits {
		if request := c.Resources.Requests[resource]; request.Cmp(limit) > 0 {
			errs = append(errs, field.Invalid(at.Child("resources", "requests").Key(string(resource)), request.String(),
				fmt.Sprintf("must be at most the limit of %s", limit.String())))
		}
	}
	return errs
}
