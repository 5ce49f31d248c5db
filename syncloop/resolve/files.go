package resolve

import (
	"errors"
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/burstlet/burstlet/backend"
)

const (
	// defaultMode is the API's default of every defaultMode.
	defaultMode = 0o644
	// credentialMode is that of tokens and trust bundles in a pod with a user or
	// a group of its own; fsGroup widens it.
	credentialMode = 0o600
)

// Files are the contents of a configMap, secret, projected or downwardAPI volume,
// sorted by path; nil for other kinds, empty but not nil for a volume that is
// optional and lacks its object. Data may be shared with o: it is read-only.
//
// Errors: ErrWaiting while an object or a token is not known, or not asked for
// because it is kept (Objects.Kept); any other says in the kubelet's words why
// the volume cannot be set up, all that is wrong with a projected one at once.
// Unsupported is among them.
func Files(pod *corev1.Pod, vol *corev1.Volume, o Objects, node Node) ([]backend.File, error) {
	f := filler{pod: pod, objects: o, node: node, files: payload{}}
	var err error
	switch {
	case vol.ConfigMap != nil:
		s := vol.ConfigMap
		f.mode = modeOf(s.DefaultMode, defaultMode)
		err = f.configMap(s.Name, s.Items, s.Optional)
	case vol.Secret != nil:
		s := vol.Secret
		f.mode = modeOf(s.DefaultMode, defaultMode)
		err = f.secret(s.SecretName, s.Items, s.Optional)
	case vol.DownwardAPI != nil:
		s := vol.DownwardAPI
		f.mode = modeOf(s.DefaultMode, defaultMode)
		err = f.downward(s.Items)
	case vol.Projected != nil:
		f.mode = modeOf(vol.Projected.DefaultMode, defaultMode)
		err = f.projected(vol.Projected.Sources)
	default:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return f.files.sorted()
}

func modeOf(mode *int32, otherwise int32) int32 {
	if mode != nil {
		return *mode
	}
	return otherwise
}

// filler gathers the files of one volume.
type filler struct {
	pod     *corev1.Pod
	objects Objects
	node    Node
	mode    int32 // the volume's default
	files   payload
}

// projected fills in each source, a later one over an earlier. While one waits,
// what is wrong with others is not told: it may be different then.
func (f filler) projected(sources []corev1.VolumeProjection) error {
	var problems []error
	for i := range sources {
		err := f.source(i, &sources[i])
		if errors.Is(err, ErrWaiting) {
			return err
		}
		if err != nil {
			problems = append(problems, err)
		}
	}
	return utilerrors.NewAggregate(problems)
}

func (f filler) source(i int, s *corev1.VolumeProjection) error {
	switch {
	case s.Secret != nil:
		return f.secret(s.Secret.Name, s.Secret.Items, s.Secret.Optional)
	case s.ConfigMap != nil:
		return f.configMap(s.ConfigMap.Name, s.ConfigMap.Items, s.ConfigMap.Optional)
	case s.DownwardAPI != nil:
		return f.downward(s.DownwardAPI.Items)
	case s.ServiceAccountToken != nil:
		return f.token(s.ServiceAccountToken)
	case s.ClusterTrustBundle != nil:
		return f.bundle(s.ClusterTrustBundle)
	case s.PodCertificate != nil:
		return backend.Errorf(backend.ErrUnsupported, "projected.sources[%d].podCertificate is not supported", i)
	}
	return nil
}

func (f filler) configMap(name string, items []corev1.KeyToPath, mayLack *bool) error {
	configMap, err := f.objects.configMap(name, optional(mayLack))
	if err != nil || configMap == nil {
		return err
	}
	data := make(map[string][]byte, len(configMap.Data)+len(configMap.BinaryData))
	for key, value := range configMap.BinaryData {
		data[key] = value
	}
	for key, value := range configMap.Data {
		data[key] = []byte(value)
	}
	return f.keys(data, items, optional(mayLack), "configmap references non-existent config key")
}

func (f filler) secret(name string, items []corev1.KeyToPath, mayLack *bool) error {
	secret, err := f.objects.secret(name, optional(mayLack))
	if err != nil || secret == nil {
		return err
	}
	return f.keys(secret.Data, items, optional(mayLack), "references non-existent secret key")
}

// keys adds the items, or without any all keys under their own names. An optional
// source may lack items; lacking is what to say of one that must be there.
func (f filler) keys(data map[string][]byte, items []corev1.KeyToPath, mayLack bool, lacking string) error {
	if len(items) == 0 {
		for key, value := range data {
			f.files[key] = backend.File{Data: value, Mode: f.mode}
		}
		return nil
	}
	for _, item := range items {
		value, ok := data[item.Key]
		switch {
		case ok:
			f.files[item.Path] = backend.File{Data: value, Mode: modeOf(item.Mode, f.mode)}
		case !mayLack:
			return fmt.Errorf("%s: %s", lacking, item.Key)
		}
	}
	return nil
}

func (f filler) downward(items []corev1.DownwardAPIVolumeFile) error {
	var problems []error
	for i := range items {
		item := &items[i]
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = metadataField(f.pod, item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			// The pod's own limits do not stand in here: for volumes the kubelet
			// knows the node's only.
			value, err = resourceField(f.pod, nil, item.ResourceFieldRef, f.node.Allocatable)
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		f.files[path.Clean(item.Path)] = backend.File{Data: []byte(value), Mode: modeOf(item.Mode, f.mode)}
	}
	return utilerrors.NewAggregate(problems)
}

func (f filler) token(p *corev1.ServiceAccountTokenProjection) error {
	token, known := f.objects.Tokens[TokenKeyOf(p)]
	if !known {
		return fmt.Errorf("service account token for audience %q: %w", p.Audience, ErrWaiting)
	}
	if token.Err != nil {
		return token.Err
	}
	f.credential(p.Path, []byte(token.Value.Value))
	return nil
}

// bundle adds trust anchors; an optional one that selects nothing is an empty
// file.
func (f filler) bundle(p *corev1.ClusterTrustBundleProjection) error {
	if p.Name == nil && p.SignerName == nil {
		return errors.New("ClusterTrustBundle projection requires either name or signerName to be set")
	}
	bundle, known := f.objects.Bundles[BundleKey(p)]
	if !known {
		return fmt.Errorf("cluster trust bundle %q: %w", BundleKey(p), ErrWaiting)
	}
	if bundle.Err != nil && (!optional(p.Optional) || !missing(bundle.Err)) {
		return bundle.Err
	}
	f.credential(p.Path, []byte(bundle.Value))
	return nil
}

// credential adds a file that only the pod's user reads, where it has one.
func (f filler) credential(to string, data []byte) {
	user := fsUser(f.pod)
	mode := f.mode
	if user != nil || f.pod.Spec.SecurityContext != nil && f.pod.Spec.SecurityContext.FSGroup != nil {
		mode = credentialMode
	}
	f.files[to] = backend.File{Data: data, Mode: mode, UID: user}
}

// fsUser is the user that all containers of the pod are said to run as; nil if
// one does not say or they differ.
func fsUser(pod *corev1.Pod) *int64 {
	var user *int64
	same := true
	eachContainer(pod, func(c *corev1.Container) {
		var runAs *int64
		if pod.Spec.SecurityContext != nil {
			runAs = pod.Spec.SecurityContext.RunAsUser
		}
		if c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil {
			runAs = c.SecurityContext.RunAsUser
		}
		if runAs == nil || user != nil && *user != *runAs {
			same = false
			return
		}
		user = runAs
	})
	if !same {
		return nil
	}
	return user
}
