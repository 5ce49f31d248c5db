package taskdef

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/fargate"
	"github.com/burstlet/burstlet/backend/ecs/intask"
	"github.com/burstlet/burstlet/backend/ecs/intask/podfiles"
)

// dirMode is that of an emptyDir (kubelet: emptydir).
const (
	dirMode = 0o777
	setgid  = 0o2000
	// diskMode is that of a new file system, widened for its group.
	diskMode = 0o775
)

// volumePlan is what the volumes of a pod become in a definition.
type volumePlan struct {
	volumes []types.Volume
	// mounts and tmpfs are by container.
	mounts map[string][]types.MountPoint
	tmpfs  map[string][]types.Tmpfs
	// init are the mounts of burstlet-init, dirs those of them that hold nothing
	// and want a mode. Without any there is no burstlet-init.
	init []types.MountPoint
	dirs []podfiles.Dir
	// files are the mounts of init that hold files: burstlet-agent keeps them fresh.
	files []types.MountPoint
	// subPaths are, by container, the mounts of parts of volumes.
	subPaths map[string][]intask.SubPath
	// made is true with a volume that is made for the pod.
	made bool
	// region and taskRole are where S3 file systems are, and whose.
	region, taskRole string
}

// volumesOf translates the volumes that containers mount. Errors: Unsupported and
// Invalid, naming the volume.
func volumesOf(spec backend.LaunchSpec, size fargate.Size, region, taskRole string) (volumePlan, error) {
	plan := volumePlan{
		mounts: map[string][]types.MountPoint{}, tmpfs: map[string][]types.Tmpfs{},
		subPaths: map[string][]intask.SubPath{}, region: region, taskRole: taskRole,
	}
	byName := map[string]backend.VolumeSpec{}
	memory := map[string]bool{}
	for _, v := range spec.Volumes {
		byName[v.Name] = v
		if e := v.Source.EmptyDir; e != nil &&
			inMemory(&spec.Pod.Spec, &corev1.Volume{Name: v.Name, VolumeSource: v.Source}) {
			memory[v.Name] = true
			continue
		}
		if err := plan.add(v); err != nil {
			return plan, err
		}
	}
	for _, c := range spec.Containers {
		for _, m := range plan.whole(spec.Pod, c, byName) {
			v, ok := byName[m.Name]
			switch {
			case !ok:
				return plan, backend.Errorf(backend.ErrInvalid, "container %s: volume %s is not resolved",
					c.Container.Name, m.Name)
			case memory[m.Name]:
				plan.tmpfs[c.Container.Name] = append(plan.tmpfs[c.Container.Name], tmpfsOf(m, v.Source.EmptyDir, size))
			default:
				plan.mounts[c.Container.Name] = append(plan.mounts[c.Container.Name], types.MountPoint{
					SourceVolume:  aws.String(taskVolume(spec.Pod, m.Name)),
					ContainerPath: aws.String(m.MountPath), ReadOnly: readOnly(m.ReadOnly || v.ReadOnly),
				})
			}
		}
	}
	return plan, nil
}

// whole are the mounts of a container with whole volumes in the place of parts: ECS
// mounts no others. The supervisor makes links to the parts.
func (p *volumePlan) whole(
	pod *corev1.Pod, spec backend.ContainerSpec, volumes map[string]backend.VolumeSpec,
) []corev1.VolumeMount {
	var out []corev1.VolumeMount
	at := map[string]string{} // by volume, and whether it is read-only
	for i, m := range spec.Container.VolumeMounts {
		part, expand := partOf(pod, spec.Container.Name, i, m)
		if part == "" {
			out = append(out, m)
			continue
		}
		reads := m.ReadOnly || volumes[m.Name].ReadOnly
		key := m.Name + strconv.FormatBool(reads)
		if at[key] == "" {
			at[key] = intask.SubDir(len(at))
			out = append(out, corev1.VolumeMount{Name: m.Name, MountPath: at[key], ReadOnly: m.ReadOnly})
		}
		p.subPaths[spec.Container.Name] = append(p.subPaths[spec.Container.Name], intask.SubPath{
			MountPath: m.MountPath, Volume: at[key], Path: part, Expand: expand, ReadOnly: reads,
		})
	}
	return out
}

// partOf is the part of a volume that is mounted, as the pod says it: what subPathExpr
// becomes may be another for each pod.
func partOf(pod *corev1.Pod, container string, i int, m corev1.VolumeMount) (part string, expand bool) {
	if c := containerIn(&pod.Spec, container); c != nil && i < len(c.VolumeMounts) &&
		c.VolumeMounts[i].SubPathExpr != "" {
		return c.VolumeMounts[i].SubPathExpr, true
	}
	return m.SubPath, false
}

// ownVolumes are burstlet's own.
func (t *translator) ownVolumes() []types.Volume {
	if t.cfg.TaskImage == "" {
		return nil
	}
	out := []types.Volume{{Name: aws.String(binVolume), Host: &types.HostVolumeProperties{}}}
	for _, name := range t.names(true) {
		out = append(out, types.Volume{Name: aws.String(runVolume(name)), Host: &types.HostVolumeProperties{}})
	}
	return out
}

// taskVolume is a volume's name in the task: its place in the pod. Its own name
// may differ between pods of one template, because the API server's admission
// makes up that of the token's (kube-api-access-x2x4z).
func taskVolume(pod *corev1.Pod, name string) string {
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	return "v" + strconv.Itoa(i)
}

// add translates a volume that is one of the task's.
func (p *volumePlan) add(v backend.VolumeSpec) error {
	name := taskVolume(v.Pod, v.Name)
	volume := types.Volume{Name: aws.String(name)}
	switch source := v.Source; {
	case hasFiles(v):
		volume.Host = &types.HostVolumeProperties{}
		p.fill(name)
		p.files = append(p.files, p.init[len(p.init)-1])
	case source.EmptyDir != nil:
		volume.Host = &types.HostVolumeProperties{}
		p.fill(name)
		p.dirs = append(p.dirs, dirOf(v))
	case source.CSI != nil && source.CSI.Driver == efsDriver:
		var err error
		if strings.HasPrefix(v.Handle, s3FilesPrefix) {
			volume.S3filesVolumeConfiguration, err = s3FilesOf(v, p.region, p.taskRole)
		} else {
			volume.EfsVolumeConfiguration, err = efsOf(v)
		}
		if err != nil {
			return backend.Errorf(backend.ErrUnsupported, "volume %s: %w", v.Name, err)
		}
	case source.Ephemeral != nil:
		if p.made {
			return backend.Errorf(backend.ErrUnsupported, "volume %s: %s", v.Name, whySecondEBS)
		}
		p.made, volume.ConfiguredAtLaunch = true, aws.Bool(true) // see madeVolume
		if sc := v.Pod.Spec.SecurityContext; sc != nil && sc.FSGroup != nil {
			p.fill(name) // new and empty: the group gets its root (kubelet: volume.SetVolumeOwnership)
			p.dirs = append(p.dirs, podfiles.Dir{Name: name, Mode: diskMode | setgid, Group: sc.FSGroup})
		}
	default:
		return backend.Errorf(backend.ErrUnsupported, "volume %s: %s", v.Name, whyClaim)
	}
	p.volumes = append(p.volumes, volume)
	return nil
}

// dirOf is what becomes of an emptyDir on disk: everyone may write to it, and what
// is made there is of the pod's fsGroup if it has one (kubelet: emptydir, and
// volume.SetVolumeOwnership).
func dirOf(v backend.VolumeSpec) podfiles.Dir {
	out := podfiles.Dir{Name: taskVolume(v.Pod, v.Name), Mode: dirMode}
	if sc := v.Pod.Spec.SecurityContext; sc != nil && sc.FSGroup != nil {
		out.Group, out.Mode = sc.FSGroup, dirMode|setgid
	}
	return out
}

// fill lets burstlet-init see a volume.
func (p *volumePlan) fill(name string) {
	p.init = append(p.init, types.MountPoint{
		SourceVolume: aws.String(name), ContainerPath: aws.String(intask.VolumesDir + "/" + name),
	})
}

func readOnly(is bool) *bool {
	if !is {
		return nil
	}
	return aws.Bool(true)
}

// hasFiles is true for volumes whose contents travel in the launch.
func hasFiles(v backend.VolumeSpec) bool {
	s := v.Source
	return s.ConfigMap != nil || s.Secret != nil || s.Projected != nil || s.DownwardAPI != nil
}

// Files are the volumes whose contents travel in the launch, under their names in
// the task: those that all pods of one shape have alike, and those that are the
// pod's own.
func Files(spec backend.LaunchSpec) (shared, own []backend.VolumeSpec) {
	for _, v := range spec.Volumes {
		v.Name = taskVolume(v.Pod, v.Name)
		switch {
		case !hasFiles(v):
		case ownFiles(v.Source):
			own = append(own, v)
		default:
			shared = append(shared, v)
		}
	}
	return shared, own
}

// ownFiles is true for sources that tell one pod from another.
func ownFiles(s corev1.VolumeSource) bool {
	if s.DownwardAPI != nil {
		return true
	}
	return s.Projected != nil && slices.ContainsFunc(s.Projected.Sources, func(p corev1.VolumeProjection) bool {
		return p.ServiceAccountToken != nil || p.DownwardAPI != nil || p.PodCertificate != nil
	})
}

// inMemory is true for an emptyDir that becomes a tmpfs. A tmpfs is a container's
// own on Fargate: one that several mount stands on the task's disk.
func inMemory(spec *corev1.PodSpec, v *corev1.Volume) bool {
	return v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumMemory && mountsOf(spec, v.Name) <= 1
}

// mountsOf counts how often a volume is mounted.
func mountsOf(spec *corev1.PodSpec, volume string) int {
	n := 0
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			for _, m := range list[i].VolumeMounts {
				if m.Name == volume {
					n++
				}
			}
		}
	}
	return n
}

// tmpfsOf is an emptyDir in memory (ECS API, LinuxParameters: tmpfs, which the
// developer guide's page of differences still denies for Fargate). Without a
// limit it may fill the task's memory, as the kubelet bounds it by the node's.
func tmpfsOf(m corev1.VolumeMount, e *corev1.EmptyDirVolumeSource, size fargate.Size) types.Tmpfs {
	limit := size.MemoryMiB
	if e.SizeLimit != nil && e.SizeLimit.Sign() > 0 {
		limit = min(limit, max((e.SizeLimit.Value()+mib-1)/mib, 1))
	}
	out := types.Tmpfs{ContainerPath: aws.String(m.MountPath), Size: int32(limit)}
	if m.ReadOnly {
		out.MountOptions = []string{"ro"}
	}
	return out
}

// Why volumes are refused.
const (
	whyClaim = "of PersistentVolumes those of the CSI driver efs.csi.aws.com can be mounted on Fargate: use " +
		"one of Amazon EFS or S3 Files"
	whyTaskImage = "its contents are put there by burstlet's own image: set backend.ecs.taskImage"
	whyDirImage  = "without burstlet's own image only root could write to it: set backend.ecs.taskImage, or " +
		"runAsUser 0 for every container that mounts it"
	whyFilesRole = "its contents reach the task by its execution role: set backend.ecs.executionRoleARN"
	whyOwnRole   = "contents of this pod alone are fetched with the task's role: set backend.ecs.taskRoleARN"
)

// volumesFit checks each volume by its kind.
func volumesFit(k *checking, path string, value any, _ string) []refusal {
	volumes, _ := value.([]corev1.Volume)
	var out []refusal
	for i := range volumes {
		for _, why := range k.volume(&volumes[i]) {
			out = append(out, refusal{Field: fmt.Sprintf("%s[%d]", path, i) + why.Field, Why: why.Why})
		}
	}
	return out
}

// volume says what is refused in one; fields are relative.
func (k *checking) volume(v *corev1.Volume) []refusal {
	one := func(field, why string) []refusal { return []refusal{{Field: field, Why: why}} }
	no := " is not possible on Fargate: use a ConfigMap, a Secret, an emptyDir or a claim on Amazon EFS"
	switch s := v.VolumeSource; {
	case s.ConfigMap != nil, s.Secret != nil, s.Projected != nil, s.DownwardAPI != nil:
		return k.filesVolume(s)
	case s.EmptyDir != nil:
		return k.emptyDir(v)
	case s.PersistentVolumeClaim != nil:
		return nil // what the claim is bound to is told at the launch
	case s.Ephemeral != nil:
		return k.ephemeral(v)
	case s.Image != nil:
		return one(".image", "a volume from an image is not possible on Fargate: copy it in an init container "+
			"to an emptyDir")
	case s.HostPath != nil:
		return one(".hostPath", "a Fargate task has no host: use an emptyDir or a claim on Amazon EFS")
	case s.NFS != nil:
		return one(".nfs", "NFS"+no)
	case s.CSI != nil:
		return one(".csi", "a CSI volume of the pod's own"+no)
	}
	return one("", "this kind of volume"+no)
}

func (k *checking) filesVolume(s corev1.VolumeSource) []refusal {
	switch own := ownFiles(s); {
	case k.cfg.TaskImage == "":
		return []refusal{{Why: whyTaskImage}}
	case own && k.set.taskRole == "":
		return []refusal{{Why: whyOwnRole}}
	case !own && k.set.executionRole == "":
		return []refusal{{Why: whyFilesRole}}
	}
	return nil
}

func (k *checking) emptyDir(v *corev1.Volume) []refusal {
	switch m := v.EmptyDir.Medium; m {
	case corev1.StorageMediumDefault, corev1.StorageMediumMemory:
	default:
		return []refusal{{Field: ".emptyDir.medium", Why: fmt.Sprintf("Fargate has no %s: use Memory or none", m)}}
	}
	if k.cfg.TaskImage != "" || inMemory(&k.pod.Spec, v) || k.onlyRoot(v.Name) {
		return nil
	}
	return []refusal{{Field: ".emptyDir", Why: whyDirImage}}
}

// onlyRoot is true when every container that mounts a volume runs as root.
func (k *checking) onlyRoot(volume string) bool {
	spec := &k.pod.Spec
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			mounts := slices.ContainsFunc(list[i].VolumeMounts,
				func(m corev1.VolumeMount) bool { return m.Name == volume })
			if user := userOf(spec, &list[i]); mounts && (user == nil || *user != 0) {
				return false
			}
		}
	}
	return true
}

// mountsFit is ECS API, MountPoint: whole volumes, on directories. Parts of volumes are
// the supervisor's.
func mountsFit(k *checking, path string, value any, _ string) []refusal {
	mounts, _ := value.([]corev1.VolumeMount)
	var out []refusal
	for i, m := range mounts {
		add := func(field, why string) {
			out = append(out, refusal{Field: fmt.Sprintf("%s[%d].%s", path, i, field), Why: why})
		}
		if m.SubPath != "" && k.cfg.TaskImage == "" {
			add("subPath", whySupervisor)
		}
		if m.SubPathExpr != "" && k.cfg.TaskImage == "" {
			add("subPathExpr", whySupervisor)
		}
		if p := m.MountPropagation; p != nil && *p != corev1.MountPropagationNone {
			add("mountPropagation", "mounts are not handed on on Fargate: use None")
		}
		if r := m.RecursiveReadOnly; r != nil && *r != corev1.RecursiveReadOnlyDisabled {
			add("recursiveReadOnly", "Fargate does not know it: use Disabled")
		}
	}
	return out
}
