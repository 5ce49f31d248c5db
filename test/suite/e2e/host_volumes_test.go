package e2e

import (
	"fmt"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/kit/wait"
)

// hostVolumes are about volumes of real containers.
var hostVolumes = []row[*hostLife]{
	{"emptyDir", emptyDirShared},
	{"emptyDir in memory", emptyDirMemory},
	{"emptyDir over its limit", emptyDirEvicted},
	{"hostPath of every type", hostPaths},
	{"hostPath that is not there", hostPathMissing},
	{"configMap", configMapFiles},
	{"configMap updated", configMapLive},
	{"configMap that is optional", configMapOptional},
	{"configMap that is immutable", configMapImmutable},
	{"secret", secretFiles},
	{"secret updated", secretLive},
	{"volume that comes later", func(l *hostLife) { volumeLater(l.life) }},
	{"downwardAPI updated", func(l *hostLife) { labelsUpdate(l.life) }},
	{"token", func(l *hostLife) {
		l.remote.mounts = true
		tokenWorks(l.life)
	}},
	{"projected", projected},
	{"variables from a file", variablesFromAFile},
	{"subPath", subPaths},
	{"subPath out of its volume", subPathEscapes},
	{"mounts propagate", mountsPropagate},
	{"nested mounts", nestedMounts},
	{"local volume", localVolume},
	{"volume of an unknown kind", func(l *hostLife) {
		rejected("UnsupportedByBackend", "spec.volumes[0].iscsi", func(pod *corev1.Pod, _ string) {
			mount(
				"disk",
				corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "192.0.2.1:3260", IQN: "iqn.2001-04.test:disk"}},
			)(pod)
		})(l.life)
	}},
}

// fsGroup is the group of volumes' files.
const fsGroup = 2000

// asUser runs the pod as a user of no rights, with a group for its volumes.
func asUser(pod *corev1.Pod) {
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsUser: new(int64(1000)), RunAsGroup: new(int64(3000)), FSGroup: new(int64(fsGroup)),
	}
}

// beside adds a container that mounts what the first does.
func beside(argv ...string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		c := *pod.Spec.Containers[0].DeepCopy()
		c.Name, c.Command = "beside", argv
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
}

// volumeDir is where a volume of the pod stands on the host.
func volumeDir(pod *corev1.Pod, name string) string {
	return path.Join("/var/lib/burstlet/pods", string(pod.UID), "volumes", name)
}

// mountOf is the line of the host's mount table for a path; empty for none.
func (l *hostLife) mountOf(dir string) string {
	l.Helper()
	return l.outside(`grep -F " ` + dir + ` " /proc/mounts || :`)
}

// emptyDirShared: containers share it, it outlives a restart of theirs, and has the
// rights of the group.
func emptyDirShared(l *hostLife) {
	l.create(l.pod([]string{
		"sh", "-c",
		"echo x >>/scratch/starts; test $(wc -l </scratch/starts) = 2 || exit 1; echo group $(stat -c '%g %A' /scratch); " +
			"sleep 1000",
	},
		asUser, mount("scratch", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		beside("sh", "-c", "until [ -s /scratch/starts ]; do sleep 0.1; done; echo saw it; sleep 1000")))
	pod := l.until("restarted once", restartedOnce)
	l.says("beside", "saw it")
	l.says("app", fmt.Sprintf("group %d drwxrwsrwx", fsGroup))
	if at := l.mountOf(volumeDir(pod, "scratch")); at != "" {
		l.Errorf("on disk it is a mount: %s", at)
	}
}

// variablesFromAFile: an init container writes the file; each start reads it anew.
func variablesFromAFile(l *hostLife) {
	l.needServer(35, "fileKeyRef") // on by default since then
	script := `echo "says $GREETING"; test "$GREETING" = second || { echo "GREETING='second'" >/config/env; exit 1; }`
	l.create(l.pod(shell(script), mount("config", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		func(pod *corev1.Pod) {
			init := *pod.Spec.Containers[0].DeepCopy()
			init.Name, init.Command = "init", []string{"sh", "-c", "echo \"GREETING='the first'\" >/config/env"}
			pod.Spec.InitContainers = []corev1.Container{init}
			pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "GREETING", ValueFrom: &corev1.EnvVarSource{
				FileKeyRef: &corev1.FileKeySelector{VolumeName: "config", Path: "env", Key: "GREETING"},
			}}}
		}))
	pod := l.until("restarted once", restartedOnce)
	l.says("app", "says second")
	before, err := l.pods().GetLogs(pod.Name, &corev1.PodLogOptions{Container: "app", Previous: true}).DoRaw(l.Context())
	if l.must(err); strings.TrimSpace(string(before)) != "says the first" {
		l.Errorf("the first start says %q", before)
	}
}

// emptyDirMemory: a file system of its own, as big as asked for.
func emptyDirMemory(l *hostLife) {
	l.create(l.pod(shell(
		"df -k /memory | tail -1 | awk '{print $1, $2}'; head -c 9m /dev/zero >/memory/file || echo full",
	),
		asUser, mount("memory", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			Medium: corev1.StorageMediumMemory, SizeLimit: new(resource.MustParse("8Mi")),
		}})))
	pod := l.until("Ready", isReady)
	l.says("app", "tmpfs 8192", "full")
	if at := l.mountOf(volumeDir(pod, "memory")); !strings.HasPrefix(at, "tmpfs ") {
		l.Errorf("the mount on the host is %q", at)
	}
}

func emptyDirEvicted(l *hostLife) {
	l.create(l.pod(shell("head -c 6m /dev/zero >/scratch/file"), mount("scratch", corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("4Mi"))},
	})))
	l.evicted(`Usage of EmptyDir volume "scratch" exceeds the limit "4Mi". `)
}

func hostPathOf(p string, kind corev1.HostPathType) corev1.VolumeSource {
	return corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: p, Type: &kind}}
}

// hostPaths: what is there is seen, what may be made is made, and nothing of it goes
// with the pod.
func hostPaths(l *hostLife) {
	root := "/srv/hostpaths"
	l.outside("mkdir -p " + root + "/dir; echo there >" + root + "/dir/file; mknod -m 600 " + root + "/block b 7 200")
	l.create(l.pod(shell("cat /dir/file; cat /file; echo made >/new/file; echo made >/newfile; cat /unset/file; "+
		"test -S /socket && echo socket; test -c /char && echo char; test -b /block && echo block"),
		mount("dir", hostPathOf(root+"/dir", corev1.HostPathDirectory)),
		mount("file", hostPathOf(root+"/dir/file", corev1.HostPathFile)),
		mount("new", hostPathOf(root+"/made/deep", corev1.HostPathDirectoryOrCreate)),
		mount("newfile", hostPathOf(root+"/newfile", corev1.HostPathFileOrCreate)),
		mount("unset", hostPathOf(root+"/dir", corev1.HostPathUnset)),
		mount("socket", hostPathOf("/run/containerd/containerd.sock", corev1.HostPathSocket)),
		mount("char", hostPathOf("/dev/null", corev1.HostPathCharDev)),
		mount("block", hostPathOf(root+"/block", corev1.HostPathBlockDev))))
	l.until("Ready", isReady)
	l.says("app", "there", "socket", "char", "block")
	l.endsClean()
	want := "there\nmade\nmade\n755 644"
	if got := l.outside("cd " + root +
		"; cat dir/file made/deep/file newfile; echo $(stat -c %a made/deep newfile)"); got != want {
		l.Errorf("after the pod the host has %q, want %q", got, want)
	}
}

// hostPathMissing: a check that fails is told of, and tried again.
func hostPathMissing(l *hostLife) {
	for _, tt := range []struct{ name, path, words string }{
		{"directory", "/srv/later/dir", "hostPath type check failed: /srv/later/dir is not a directory"},
		{"file", "/srv/later/file", "hostPath type check failed: /srv/later/file is not a file"},
	} {
		kind := corev1.HostPathDirectory
		if tt.name == "file" {
			kind = corev1.HostPathFile
		}
		pod := l.pod(shell(":"), mount("later", hostPathOf(tt.path, kind)))
		pod.Name = tt.name
		pod = l.create(pod)
		l.event(pod, "FailedMount", `MountVolume.SetUp failed for volume "later" : `, tt.words)
	}
	l.outside("mkdir -p /srv/later/dir; touch /srv/later/file")
	for _, name := range []string{"directory", "file"} {
		wait.Pod(l, l.c.client, l.namespace, name, l.patience(), "Ready", isReady)
	}
}

// configMapFiles: modes, binary data, and nobody writes.
func configMapFiles(l *hostLife) {
	_, err := l.c.client.CoreV1().ConfigMaps(l.namespace).Create(l.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"text": "hello", "script": "echo ran"},
		BinaryData: map[string][]byte{"binary": {0, 1, 0xff}},
	}, metav1.CreateOptions{})
	l.must(err)
	l.create(l.pod(shell("cat /all/text; echo; echo binary $(wc -c </all/binary); echo modes $(stat -Lc %a /all/text "+
		"/some/bin/run /some/text); sh /some/bin/run; "+
		"ls /some; echo x >/all/text || echo read-only; touch /all/new || echo no new; rm /all/text || echo no rm"),
		mount("all", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: object("settings")}}),
		mount("some", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: object("settings"), DefaultMode: new(int32(0o440)),
			Items: []corev1.KeyToPath{{Key: "script", Path: "bin/run", Mode: new(int32(0o555))}, {Key: "text", Path: "text"}},
		}})))
	l.until("Ready", isReady)
	l.says("app", "hello", "binary 3", "modes 644 555 440", "ran", "bin", "text", "read-only", "no new", "no rm")
}

// live is how long an update may take that a watch tells of: less than the minute
// after which a kubelet looks.
const live = 45 * time.Second

// until the file has the text, the script waits and then says so.
func waitsFor(file, text string) string {
	return fmt.Sprintf("until [ \"$(cat %s)\" = %q ]; do sleep 0.1; done; echo saw %[2]s", file, text)
}

func configMapLive(l *hostLife) {
	l.configMap("live", map[string]string{"key": "one", "old": "x"})
	l.create(l.pod(shell(waitsFor("/live/key", "one")+"; "+waitsFor("/live/key", "two")+"; ls /live"),
		mount("live", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: object("live")}})))
	l.until("Ready", isReady)
	l.says("app", "saw one")
	begin := time.Now()
	_, err := l.c.client.CoreV1().ConfigMaps(l.namespace).Update(l.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "live"}, Data: map[string]string{"key": "two", "new": "y"},
	}, metav1.UpdateOptions{})
	l.must(err)
	l.says("app", "saw two", "new")
	l.seenWithin(begin)
	if out, err := l.log("app"); err != nil || strings.Contains(out, "old\n") {
		l.Errorf("the removed key is still there: %q %v", out, err)
	}
}

func (l *hostLife) seenWithin(begin time.Time) {
	l.Helper()
	took := time.Since(begin)
	l.Logf("seen after %s", took.Round(10*time.Millisecond))
	if took > live {
		l.Errorf("the update was seen after %s", took)
	}
	l.must(neverRestarted(l.until("Ready", isReady)))
}

func secretLive(l *hostLife) {
	l.secret("live", map[string]string{"key": "one"})
	l.create(l.pod(shell(waitsFor("/live/key", "one")+"; "+waitsFor("/live/key", "two")),
		mount("live", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "live"}})))
	l.until("Ready", isReady)
	l.says("app", "saw one")
	begin := time.Now()
	_, err := l.c.client.CoreV1().Secrets(l.namespace).Update(l.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "live"}, StringData: map[string]string{"key": "two"},
	}, metav1.UpdateOptions{})
	l.must(err)
	l.says("app", "saw two")
	l.seenWithin(begin)
}

// configMapOptional: nothing is there until the object is.
func configMapOptional(l *hostLife) {
	l.create(l.pod(shell("echo files $(ls /maybe | wc -l); "+waitsFor("/maybe/key", "here")),
		mount(
			"maybe",
			corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: object("maybe"), Optional: new(true)},
			},
		)))
	l.until("Ready", isReady)
	l.says("app", "files 0")
	l.configMap("maybe", map[string]string{"key": "here"})
	wait.For(l.T, l.patience(), "the object that came later", func() error { // as a kubelet: at its next look
		out, err := l.log("app")
		if err == nil && !strings.Contains(out, "saw here") {
			err = fmt.Errorf("%q", out)
		}
		return err
	})
}

// configMapImmutable: what takes the place of an object that never changes is not
// for pods that run.
func configMapImmutable(l *hostLife) {
	maps := l.c.client.CoreV1().ConfigMaps(l.namespace)
	fixed := func(value string) {
		_, err := maps.Create(l.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "fixed"}, Immutable: new(true), Data: map[string]string{"key": value},
		}, metav1.CreateOptions{})
		l.must(err)
	}
	fixed("one")
	l.create(l.pod(shell(waitsFor("/fixed/key", "one")),
		mount("fixed", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: object("fixed")}})))
	l.until("Ready", isReady)
	l.says("app", "saw one")
	l.must(maps.Delete(l.Context(), "fixed", metav1.DeleteOptions{}))
	fixed("two")
	l.stays(5*time.Second, "it runs on", isReady)
	l.must(neverRestarted(l.until("Ready", isReady)))
	if got := l.inside("cat /fixed/key"); got != "one" {
		l.Errorf("the file says %q", got)
	}
}

// secretFiles: in memory on the host, for the user's group alone.
func secretFiles(l *hostLife) {
	l.secret("keys", map[string]string{"key": "swordfish"})
	l.create(l.pod(shell(
		"cat /keys/key; echo; echo modes $(stat -Lc '%a %u %g' /keys/key); df /keys | tail -1 | cut -d' ' -f1; echo x "+
			">/keys/key || echo read-only",
	),
		asUser, mount(
			"keys", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "keys", DefaultMode: new(int32(0o400))}},
		)))
	pod := l.until("Ready", isReady)
	l.says("app", "swordfish", fmt.Sprintf("modes 440 0 %d", fsGroup), "tmpfs", "read-only")
	if at := l.mountOf(volumeDir(pod, "keys")); !strings.HasPrefix(at, "tmpfs ") {
		l.Errorf("the mount on the host is %q", at)
	}
	// The file system of the disk, without what is mounted on it, holds none of it. In mounts of
	// its own: what others mount meanwhile would be mounted there, too.
	if found := l.outside(
		"mkdir -p /run/disk; unshare --mount sh -ec 'mount --bind /var/lib/burstlet /run/disk; grep -rl swordfish " +
			"/run/disk || :'",
	); found != "" {
		l.Errorf("on the host's disk: %s", found)
	}
}

// projected: several sources in one volume.
func projected(l *hostLife) {
	l.configMap("settings", map[string]string{"color": "blue"})
	l.secret("login", map[string]string{"user": "ann"})
	l.create(l.pod(shell("cat /all/settings/color /all/login/user /all/me/name; echo; echo token $(cut -d. -f1-3 "+
		"/all/token | tr '.' '\\n' | wc -l); "+
		"echo mode $(stat -Lc '%a %g' /all/token); echo cpu $(cat /all/me/cpu)"),
		asUser, limits("200m", "64Mi"),
		mount("all", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{
				ConfigMap: &corev1.ConfigMapProjection{
					LocalObjectReference: object("settings"), Items: []corev1.KeyToPath{{Key: "color", Path: "settings/color"}},
				},
			},
			{
				Secret: &corev1.SecretProjection{
					LocalObjectReference: object("login"), Items: []corev1.KeyToPath{{Key: "user", Path: "login/user"}},
				},
			},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "me/name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
				{Path: "me/cpu", ResourceFieldRef: &corev1.ResourceFieldSelector{
					ContainerName: "app", Resource: "limits.cpu", Divisor: resource.MustParse("1m"),
				}},
			}}},
			{
				ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
					Audience: "vault", ExpirationSeconds: new(int64(600)), Path: "token",
				},
			},
		}}})))
	l.until("Ready", isReady)
	l.says("app", "blueannsubject", "token 3", fmt.Sprintf("mode 640 %d", fsGroup), "cpu 200")
}

// subPaths: parts of volumes, by name and by variables, of every attempt.
func subPaths(l *hostLife) {
	l.configMap("settings", map[string]string{"color": "blue"})
	l.create(l.pod(shell(
		"cat /etc/color; echo; echo log >/logs/file; cat /scratch/subject/file; stat -c '%A %g' /logs; test -e "+
			"/scratch/again || { touch /scratch/again; exit 1; }",
	),
		asUser,
		mount("scratch", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		func(pod *corev1.Pod) {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "settings", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: object("settings")},
			}})
			c := &pod.Spec.Containers[0]
			c.Env = []corev1.EnvVar{{Name: "ME", ValueFrom: field("metadata.name")}}
			c.VolumeMounts = append(c.VolumeMounts,
				corev1.VolumeMount{Name: "settings", MountPath: "/etc/color", SubPath: "color"},
				corev1.VolumeMount{Name: "scratch", MountPath: "/logs", SubPathExpr: "$(ME)"})
		}))
	l.until("restarted once", restartedOnce)
	l.says("app", "blue", "log", fmt.Sprintf("drwxrwsrwx %d", fsGroup))
}

// subPathEscapes: a link in a volume that leads out of it is not followed.
func subPathEscapes(l *hostLife) {
	pod := l.create(l.pod(shell(":"), mount(
		"scratch", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	), func(pod *corev1.Pod) {
		first := *pod.Spec.Containers[0].DeepCopy()
		first.Name, first.Command = "link", []string{"ln", "-s", "/etc", "/scratch/out"}
		pod.Spec.InitContainers = []corev1.Container{first}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch", SubPath: "out"}}
	}))
	const words = `failed to prepare subPath for a volumeMount of container "app"`
	l.event(pod, "Failed", words, `subpath "/etc" not within volume path`)
	l.until("held back", waits("CreateContainerConfigError", words))
}

// mountsPropagate: from the host into a container that asks for it, and from a
// privileged one to the host.
func mountsPropagate(l *hostLife) {
	const root = "/srv/propagate"
	l.outside("mkdir -p " + root + "/in " + root + "/out " + root + "/private")
	in, out := corev1.MountPropagationHostToContainer, corev1.MountPropagationBidirectional
	propagate := func(name string, how *corev1.MountPropagationMode) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			mount(name, hostPathOf(root, corev1.HostPathDirectory))(pod)
			c := &pod.Spec.Containers[0]
			c.VolumeMounts[len(c.VolumeMounts)-1].MountPropagation = how
		}
	}
	l.create(l.pod(shell(
		"mount -t tmpfs none /both/out; echo x >/both/out/file; until [ -e /shared/in/file ]; do sleep 0.1; done; echo "+
			"saw it; test -e /none/in/file || echo alone",
	),
		secured(corev1.SecurityContext{Privileged: new(true)}),
		propagate("shared", &in), propagate("both", &out), propagate("none", nil)))
	l.until("Ready", isReady)
	l.outside("mount -t tmpfs none " + root + "/in; touch " + root + "/in/file")
	l.says("app", "saw it", "alone")
	if got := l.outside("cat " + root + "/out/file"); got != "x" {
		l.Errorf("the host sees %q", got)
	}
	l.outside("umount " + root + "/in " + root + "/out")
}

// nestedMounts: a volume mounted inside another, which is read-only.
func nestedMounts(l *hostLife) {
	l.configMap("settings", map[string]string{"color": "blue"})
	l.create(l.pod(shell("cat /settings/color; echo; echo x >/settings/scratch/file && echo written"),
		mount(
			"settings", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: object("settings")}},
		),
		mount("scratch", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		func(pod *corev1.Pod) { pod.Spec.Containers[0].VolumeMounts[1].MountPath = "/settings/scratch" }))
	l.until("Ready", isReady)
	l.says("app", "blue", "written")
}

// localVolume: a claim bound to a directory of the host, whose ownership is set and
// whose files outlive the pod; another mounts it read-only.
func localVolume(l *hostLife) {
	const dir = "/mnt/disks/one"
	l.outside("mkdir -p " + dir + "; chmod 700 " + dir + "; echo old >" + dir + "/old; chmod 600 " + dir + "/old")
	class, size := "", corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	_, err := l.c.client.CoreV1().PersistentVolumes().Create(l.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: l.namespace},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   modes,
			StorageClassName:              class,
			Capacity:                      size,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: dir}},
			ClaimRef:                      &corev1.ObjectReference{Namespace: l.namespace, Name: "data"},
			NodeAffinity: &corev1.VolumeNodeAffinity{
				Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{
						{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{l.n.name}},
					},
				}}},
			},
		},
	}, metav1.CreateOptions{})
	l.must(err)
	_, err = l.c.client.CoreV1().PersistentVolumeClaims(l.namespace).Create(l.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, StorageClassName: &class, VolumeName: l.namespace,
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{})
	l.must(err)
	claim := func(readOnly bool) corev1.VolumeSource {
		return corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data", ReadOnly: readOnly},
		}
	}
	l.create(
		l.pod(shell("cat /data/old; echo new >/data/new && stat -c '%a %g' /data/old"), asUser, mount("data", claim(false))),
	)
	l.until("Ready", isReady)
	l.says("app", "old", fmt.Sprintf("660 %d", fsGroup))
	l.endsClean()
	if got := l.outside("cat " + dir + "/new; stat -c '%A %g' " + dir); got != fmt.Sprintf("new\ndrwxrws--- %d", fsGroup) {
		l.Errorf("after the pod the host has %q", got)
	}
	l.create(l.pod(shell("cat /data/new; touch /data/x || echo read-only"), asUser, mount("data", claim(true))))
	l.until("Ready", isReady)
	l.says("app", "new", "read-only")
}
