package e2e

import (
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/test/kit/wait"
)

// objectBehaviours are about what pods refer to: the environment and volumes.
var objectBehaviours = []behaviour{
	{"environment", []string{onSim, onCRI}, environment},
	{"environment-later", []string{onSim, onPodUnit, onCRI}, environmentLater},
	{"configmap-update", []string{onSim}, configMapUpdate},
	{"secret-items", []string{onSim, onPodUnit}, secretItems},
	{"volume-later", []string{onSim, onPodUnit}, volumeLater},
	{"labels-update", []string{onSim}, labelsUpdate},
	{"token", []string{onSim, onPodUnit}, tokenWorks},
	{"claim", []string{onSim}, claimMounted},
	{"pull-secret-missing", []string{onSim, onCRI}, pullSecretMissing},
}

func (l *life) configMap(name string, data map[string]string) {
	l.Helper()
	_, err := l.c.client.CoreV1().ConfigMaps(l.namespace).Create(l.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
	l.must(err)
}

func (l *life) secret(name string, data map[string]string) {
	l.Helper()
	_, err := l.c.client.CoreV1().Secrets(l.namespace).Create(l.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}, metav1.CreateOptions{})
	l.must(err)
}

func object(name string) corev1.LocalObjectReference {
	return corev1.LocalObjectReference{Name: name}
}

func field(path string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
}

// environment: variables of every source, with the values that the API shows.
func environment(l *life) {
	yes := true
	l.configMap("settings", map[string]string{"color": "blue", "shape": "round"})
	l.secret("login", map[string]string{"user": "ann"})
	_, err := l.c.client.CoreV1().Services(l.namespace).Create(l.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 8080}}},
	}, metav1.CreateOptions{})
	l.must(err)
	l.create(l.pod(shell("env"), func(pod *corev1.Pod) {
		c := &pod.Spec.Containers[0]
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
		c.EnvFrom = []corev1.EnvFromSource{
			{Prefix: "SET_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: object("settings")}},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: object("login")}},
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: object("absent"), Optional: &yes}},
		}
		c.Env = []corev1.EnvVar{
			{Name: "COLOR", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: object("settings"), Key: "color",
			}}},
			{Name: "USER", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: object("login"), Key: "user",
			}}},
			{Name: "BOTH", Value: "$(USER) likes $(COLOR), $$(COLOR)"},
			{Name: "NODE", ValueFrom: field("spec.nodeName")},
			{Name: "UID", ValueFrom: field("metadata.uid")},
			{Name: "IP", ValueFrom: field("status.podIP")},
			{Name: "HOST", ValueFrom: field("status.hostIP")},
			{Name: "MEMORY", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{
				Resource: "limits.memory", Divisor: resource.MustParse("1Mi"),
			}}},
			{
				Name:      "CPU",
				ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}},
			},
		}
	}))
	pod := l.until("Ready", isReady)
	svc, err := l.c.client.CoreV1().Services(l.namespace).Get(l.Context(), "shop", metav1.GetOptions{})
	l.must(err)
	l.says("app", "SET_color=blue", "SET_shape=round", "user=ann", "COLOR=blue", "USER=ann",
		"BOTH=ann likes blue, $(COLOR)", "NODE="+l.n.name, "UID="+string(pod.UID), "IP="+pod.Status.PodIP,
		"HOST="+pod.Status.HostIP, "MEMORY=64", "CPU=64",
		"SHOP_SERVICE_HOST="+svc.Spec.ClusterIP, "SHOP_SERVICE_PORT=8080")
}

// environmentLater: a container whose ConfigMap is missing says so, and starts
// when it is made, without a restart.
func environmentLater(l *life) {
	pod := l.create(l.pod(shell("echo $late"), func(pod *corev1.Pod) {
		pod.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: object("later")}},
		}
	}))
	l.until("held back", waits("CreateContainerConfigError", `configmap "later" not found`))
	l.event(pod, "Failed", `Error: configmap "later" not found`)
	made := time.Now()
	l.configMap("later", map[string]string{"late": "never too late"})
	l.until("Ready", isReady)
	// A kubelet's cache may be a minute old. A start takes another where many do.
	if took := time.Since(made); took > 2*time.Minute {
		l.Errorf("the container was started %s after its ConfigMap was made", took)
	}
	l.must(neverRestarted(l.until("Ready", isReady)))
	l.says("app", "never too late")
}

// configMapUpdate: a running container sees the new contents of its volume.
func configMapUpdate(l *life) {
	l.configMap("live", map[string]string{"go": "", "old": "x"})
	l.create(l.pod(shell(":"), readyWhen("test -s /live/go && test ! -e /live/old"),
		mount("live", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: object("live")}})))
	l.until("running", isUnready)
	l.stays(3*time.Second, "the file is empty", isUnready)
	maps := l.c.client.CoreV1().ConfigMaps(l.namespace)
	_, err := maps.Update(l.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "live"}, Data: map[string]string{"go": "now"},
	}, metav1.UpdateOptions{})
	l.must(err)
	l.must(neverRestarted(l.until("the new contents are seen", isReady)))
}

// secretItems: keys under paths of their own, binary too, and only those.
func secretItems(l *life) {
	l.secret("keys", map[string]string{"a": "alpha", "b": "beta"})
	l.create(l.pod(shell("cat /keys/deep/a.txt"), readyWhen("test -s /keys/deep/a.txt && test ! -e /keys/b"),
		mount("keys", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: "keys", Items: []corev1.KeyToPath{{Key: "a", Path: "deep/a.txt"}},
		}})))
	l.until("the files are there", isReady)
	wait.For(l.T, patience, "the file's contents", func() error {
		out, err := l.log("app")
		if err == nil && out != "alpha" {
			err = fmt.Errorf("it is %q", out)
		}
		return err
	})
}

// volumeLater: a pod whose volume's ConfigMap is missing waits and says so.
func volumeLater(l *life) {
	pod := l.create(l.pod(shell(":"), readyWhen("test -s /late/key"),
		mount("late", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: object("late")}})))
	l.event(pod, "FailedMount", `MountVolume.SetUp failed for volume "late" : configmap "late" not found`)
	l.until("held back", waits("ContainerCreating"))
	l.configMap("late", map[string]string{"key": "value"})
	l.must(neverRestarted(l.until("Ready", isReady)))
}

// labelsUpdate: the downward API's files follow the pod.
func labelsUpdate(l *life) {
	l.create(l.pod(shell("cat /me/name"), readyWhen("test -s /me/labels && test -s /me/name"),
		mount("me", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
			{Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
		}}})))
	l.until("running", isUnready)
	l.stays(2*time.Second, "the file of labels is empty", isUnready)
	_, err := l.pods().Patch(l.Context(), "subject", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"seen":"yes"}}}`), metav1.PatchOptions{})
	l.must(err)
	l.must(neverRestarted(l.until("the new label is seen", isReady)))
}

// serviceAccountDir is where every client of the API looks.
const serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount/"

// tokenWorks: the files of the service account let a client in as that account,
// on behalf of this pod.
func tokenWorks(l *life) {
	l.create(l.pod([]string{"sh", "-c", "cat " + serviceAccountDir + "token; echo; sleep 1000"},
		readyWhen("test -s "+serviceAccountDir+"ca.crt && test -s "+serviceAccountDir+"namespace"),
		func(pod *corev1.Pod) {
			pod.Spec.InitContainers = []corev1.Container{
				{Name: "ca", Image: imageOf, Command: []string{"cat", serviceAccountDir + "ca.crt"}},
				{Name: "namespace", Image: imageOf, Command: []string{"cat", serviceAccountDir + "namespace"}},
			}
		}))
	pod := l.until("Ready", isReady)
	files := map[string]string{}
	for container, end := range map[string]string{"ca": "-----END CERTIFICATE-----", "namespace": l.namespace, "app": ""} {
		wait.For(l.T, patience, "the log of "+container, func() error { // Ready may come first
			out, err := l.log(container)
			out = strings.TrimRight(out, "\n")
			if err == nil && (out == "" || !strings.HasSuffix(out, end)) {
				err = fmt.Errorf("it is %d bytes, want the end %q", len(out), end)
			}
			files[container] = out
			return err
		})
	}
	if files["namespace"] != l.namespace {
		l.Errorf("the namespace file says %q", files["namespace"])
	}
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: l.c.URL(), BearerToken: files["app"], TLSClientConfig: rest.TLSClientConfig{CAData: []byte(files["ca"] + "\n")},
	})
	l.must(err)
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(
		l.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{},
	)
	l.must(err)
	who := review.Status.UserInfo
	if want := "system:serviceaccount:" + l.namespace + ":default"; who.Username != want {
		l.Errorf("the token is of %q, want %q", who.Username, want)
	}
	for key, want := range map[string]string{
		"authentication.kubernetes.io/pod-name": pod.Name, "authentication.kubernetes.io/pod-uid": string(pod.UID),
		"authentication.kubernetes.io/node-name": l.n.name,
	} {
		if got := strings.Join(who.Extra[key], ","); got != want {
			l.Errorf("the token's %s is %q, want %q", key, got, want)
		}
	}
}

// claimMounted: a claim bound to a PersistentVolume is mounted, by the node's
// own rights to read both.
func claimMounted(l *life) {
	class := ""
	_, err := l.c.client.CoreV1().PersistentVolumes().Create(l.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: l.namespace},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/data/claim"},
			},
			ClaimRef: &corev1.ObjectReference{Namespace: l.namespace, Name: "data"},
		},
	}, metav1.CreateOptions{})
	l.must(err)
	_, err = l.c.client.CoreV1().PersistentVolumeClaims(l.namespace).Create(l.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class,
			VolumeName: l.namespace,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}, metav1.CreateOptions{})
	l.must(err)
	l.create(l.pod(shell("touch /data/x"), readyWhen("test -e /data/x"),
		mount(
			"data", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}},
		)))
	pod := l.until("Ready", isReady)
	if left := strings.Join(l.remote.live(l.T, pod), ", "); !strings.Contains(left, "volume data of "+string(pod.UID)) {
		l.Errorf("the claim is not on the remote: %s", left)
	}
}

// pullSecretMissing: a pull secret that is not there keeps nobody from an image
// that needs none; the user is told.
func pullSecretMissing(l *life) {
	pod := l.create(l.pod(shell(":"), func(pod *corev1.Pod) {
		pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{object("registry")}
	}))
	l.event(pod, "FailedToRetrieveImagePullSecret", "Unable to retrieve some image pull secrets (registry)")
	l.until("Ready", isReady)
}
