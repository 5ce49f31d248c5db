package explain

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

// Template is one pod to explain.
type Template struct {
	// name tells where it is from: "Deployment shop/web".
	name string
	pod  *corev1.Pod
	// notes say what was added to it, as the API server would.
	notes []string
}

// Read reads the pods, and the templates of workloads, in files; - is stdin. Errors name
// the file and the document in it.
func Read(stdin io.Reader, files []string) ([]Template, error) {
	if len(files) == 0 {
		return nil, errors.New("flag --filename: name at least one file with pods")
	}
	var out []Template
	for _, file := range files {
		found, err := readFile(stdin, file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, found...)
	}
	if len(out) == 0 {
		return nil, errors.New("there is no pod and no workload in what was read")
	}
	return out, nil
}

func readFile(stdin io.Reader, file string) ([]Template, error) {
	if file == "-" {
		return decodeTemplates(stdin)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return decodeTemplates(bytes.NewReader(data))
}

// documentSize bounds one document; the API server takes less.
const documentSize = 8 << 20

// decodeTemplates reads documents strictly: a field that Kubernetes does not know
// is an error that names it.
func decodeTemplates(r io.Reader) ([]Template, error) {
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	documents := yaml.NewYAMLOrJSONDecoder(r, documentSize)
	var out []Template
	for i := 1; ; i++ {
		var raw runtime.RawExtension
		err := documents.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i, err)
		}
		if len(bytes.TrimSpace(raw.Raw)) == 0 || bytes.Equal(raw.Raw, []byte("null")) {
			continue
		}
		found, err := decodeObject(decoder, raw.Raw)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i, err)
		}
		out = append(out, found...)
	}
}

func decodeObject(decoder runtime.Decoder, raw []byte) ([]Template, error) {
	object, kind, err := decoder.Decode(raw, nil, nil)
	if runtime.IsNotRegisteredError(err) {
		return nil, nil // another's kind: no pod
	}
	if err != nil {
		return nil, err
	}
	if list, ok := object.(*corev1.List); ok {
		var out []Template
		for i := range list.Items {
			found, err := decodeObject(decoder, list.Items[i].Raw)
			if err != nil {
				return nil, fmt.Errorf("items[%d]: %w", i, err)
			}
			out = append(out, found...)
		}
		return out, nil
	}
	pod, suffix := podIn(object)
	if pod == nil {
		return nil, nil
	}
	meta, ok := object.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("%s has no metadata", kind.Kind)
	}
	pod.Namespace = meta.GetNamespace()
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	name := meta.GetName()
	if name == "" {
		name = meta.GetGenerateName()
	}
	pod.Name = name + suffix
	pod.UID = "00000000-0000-0000-0000-000000000000" // as long as a real one
	t := Template{name: kind.Kind + " " + pod.Namespace + "/" + name, pod: pod}
	t.addToken()
	return []Template{t}, nil
}

// podIn is the pod that an object is or makes, with what its name gets behind the
// object's; nil for one that makes none.
func podIn(object runtime.Object) (pod *corev1.Pod, suffix string) {
	const hash, random = "-0000000000", "-00000"
	switch o := object.(type) {
	case *corev1.Pod:
		return o.DeepCopy(), ""
	case *appsv1.Deployment:
		return podOfTemplate(o.Spec.Template), hash + random
	case *appsv1.ReplicaSet:
		return podOfTemplate(o.Spec.Template), random
	case *appsv1.DaemonSet:
		return podOfTemplate(o.Spec.Template), random
	case *appsv1.StatefulSet:
		return podOfStatefulSet(o), "-0"
	case *batchv1.Job:
		return podOfTemplate(o.Spec.Template), random
	case *batchv1.CronJob:
		return podOfTemplate(o.Spec.JobTemplate.Spec.Template), hash + random
	}
	return nil, ""
}

func podOfTemplate(t corev1.PodTemplateSpec) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: t.Labels, Annotations: t.Annotations}, Spec: *t.Spec.DeepCopy(),
	}
}

// podOfStatefulSet is the first pod, with the host name and the volumes of claims
// that its controller gives it.
func podOfStatefulSet(set *appsv1.StatefulSet) *corev1.Pod {
	pod := podOfTemplate(set.Spec.Template)
	pod.Spec.Hostname, pod.Spec.Subdomain = set.Name+"-0", set.Spec.ServiceName
	for i := range set.Spec.VolumeClaimTemplates {
		name := set.Spec.VolumeClaimTemplates[i].Name
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name + "-" + set.Name + "-0"},
		}})
	}
	return pod
}

// tokenPath is where the API server mounts the token of the service account.
const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// addToken adds the volume with the token as the API server's admission does
// (ServiceAccount), unless the pod has it or does not want it. The service account
// may say that it is not wanted; that is not known here.
func (t *Template) addToken() {
	spec := &t.pod.Spec
	if wanted := spec.AutomountServiceAccountToken; wanted != nil && !*wanted {
		return
	}
	const volume = "kube-api-access-00000"
	mounted := false
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			has := false
			for _, m := range list[i].VolumeMounts {
				has = has || m.MountPath == tokenPath
			}
			if !has {
				mounted = true
				list[i].VolumeMounts = append(list[i].VolumeMounts,
					corev1.VolumeMount{Name: volume, MountPath: tokenPath, ReadOnly: true})
			}
		}
	}
	if !mounted {
		return
	}
	spec.Volumes = append(spec.Volumes,
		corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{Projected: tokenSources()}})
	t.notes = append(t.notes,
		"volume "+volume+" was added, as the API server does: automountServiceAccountToken false keeps it away")
}

func tokenSources() *corev1.ProjectedVolumeSource {
	const seconds = 3607 // kube-apiserver, --service-account-extend-token-expiration
	expires := int64(seconds)
	return &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &expires}},
		{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
			Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
		}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}},
		}}},
	}}
}
