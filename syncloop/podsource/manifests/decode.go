package manifests

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// The kubelet's annotations of static pods (kubelet/types/pod_update.go).
const (
	// AnnotationSource says where a pod comes from: "file", "http".
	AnnotationSource = "kubernetes.io/config.source"
	// AnnotationHash is the hash of its manifest.
	AnnotationHash = "kubernetes.io/config.hash"
	// AnnotationSeen is when it was read first.
	AnnotationSeen = "kubernetes.io/config.seen"
)

// origin is where manifests come from.
type origin struct {
	// kind is "file" or "http", place the path or URL.
	kind, place string
	node        string
}

// decoder is strict: a field that Kubernetes does not know is an error that names it.
func decoder() (runtime.Decoder, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer(), nil
}

// decode reads one document: a Pod, or where lists are allowed a PodList or List. Pods
// that are wrong are left out, each with its error.
func decode(data []byte, from origin) ([]*corev1.Pod, error) {
	d, err := decoder()
	if err != nil {
		return nil, err
	}
	raw, err := utilyaml.ToJSON(data)
	if err != nil {
		return nil, fmt.Errorf("read manifest %s: %w", from.place, err)
	}
	object, kind, err := d.Decode(raw, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("read manifest %s: %w", from.place, err)
	}
	var items []corev1.Pod
	switch o := object.(type) {
	case *corev1.Pod:
		items = []corev1.Pod{*o}
	case *corev1.PodList:
		items = o.Items
	default:
		return nil, fmt.Errorf("read manifest %s: it is a %s, want a Pod or a PodList", from.place, kind.Kind)
	}
	if from.kind == sourceFile && len(items) != 1 {
		return nil, fmt.Errorf("read manifest %s: it has %d pods, want one Pod in a file", from.place, len(items))
	}
	var pods []*corev1.Pod
	var errs []error
	for i := range items {
		pod, err := from.static(&items[i])
		if err != nil {
			errs = append(errs, fmt.Errorf("manifest %s, pod %q: %w", from.place, items[i].Name, err))
			continue
		}
		pods = append(pods, pod)
	}
	return pods, errors.Join(errs...)
}

// static makes a manifest's pod the node's (kubelet: applyDefaults).
func (o origin) static(pod *corev1.Pod) (*corev1.Pod, error) {
	if pod.Name == "" {
		return nil, errors.New("metadata.name: Required value")
	}
	pod = pod.DeepCopy()
	if pod.UID == "" {
		hash, err := o.hash(pod)
		if err != nil {
			return nil, err
		}
		pod.UID = types.UID(hash)
	}
	pod.Name += "-" + strings.ToLower(o.node)
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	pod.Spec.NodeName = o.node
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[AnnotationHash], pod.Annotations[AnnotationSource] = string(pod.UID), o.kind
	if o.kind == sourceFile {
		tolerateNoExecute(&pod.Spec)
	}
	pod.ResourceVersion, pod.Generation, pod.DeletionTimestamp, pod.OwnerReferences, pod.Finalizers = "", 0, nil, nil, nil
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	setDefaults(pod)
	pod.Status.QOSClass = qosClass(&pod.Spec)
	return pod, check(pod)
}

// hash is of the pod and of where it comes from. Its length is that of a kubelet's.
func (o origin) hash(pod *corev1.Pod) (string, error) {
	data, err := json.Marshal(pod)
	if err != nil {
		return "", fmt.Errorf("hash: %w", err)
	}
	if o.kind == sourceFile {
		data = fmt.Appendf(data, "host:%s", o.node)
	}
	sum := sha256.Sum256(fmt.Appendf(data, "%s:%s", o.kind, o.place))
	return hex.EncodeToString(sum[:16]), nil
}

// tolerateNoExecute keeps taints from evicting a pod that its file brings back.
func tolerateNoExecute(spec *corev1.PodSpec) {
	all := corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	for _, t := range spec.Tolerations {
		if t.MatchToleration(&all) {
			return
		}
	}
	spec.Tolerations = append(spec.Tolerations, all)
}
