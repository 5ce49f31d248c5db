package resolve

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/backend"
)

const (
	// pvcProtection keeps a deleted claim alive while pods use it.
	pvcProtection = "kubernetes.io/pvc-protection"
	// volumeGIDAnnotation of a PersistentVolume adds a group to its pods.
	volumeGIDAnnotation = "pv.beta.kubernetes.io/gid"
	// efsDriver is the CSI driver of Amazon EFS, whose volumes a backend can mount
	// without a driver on the node.
	efsDriver = "efs.csi.aws.com"
	// mountOptionsAnnotation is what spec.mountOptions was once.
	mountOptionsAnnotation = corev1.MountOptionAnnotation
)

// CheckClaim tells in the kubelet's words why a claim cannot be mounted by the
// pod yet, or nil. A claim of an ephemeral volume must be the pod's own.
func CheckClaim(pod *corev1.Pod, ref ClaimRef, pvc *corev1.PersistentVolumeClaim) error {
	switch {
	case pvc.DeletionTimestamp != nil && !slices.Contains(pvc.Finalizers, pvcProtection):
		return errors.New("PVC is being deleted")
	case pvc.Status.Phase != corev1.ClaimBound:
		return errors.New("PVC is not bound")
	case pvc.Spec.VolumeName == "":
		return errors.New("PVC has empty pvc.Spec.VolumeName")
	case ref.Ephemeral && (pvc.Namespace != pod.Namespace || !metav1.IsControlledBy(pvc, pod)):
		return fmt.Errorf("PVC %s/%s was not created for pod %s/%s (pod is not owner)",
			pvc.Namespace, pvc.Name, pod.Namespace, pod.Name)
	}
	return nil
}

// CheckBinding tells in the kubelet's words why a volume is not the claim's, or
// nil.
func CheckBinding(pvc *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) error {
	if pv.Spec.ClaimRef == nil {
		return fmt.Errorf(
			"found PV object %s but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim", pv.Name,
		)
	}
	if pv.Spec.ClaimRef.UID != pvc.UID {
		return fmt.Errorf("found PV object %s but its pv.Spec.ClaimRef.UID %s does not point to claim.UID %s",
			pv.Name, pv.Spec.ClaimRef.UID, pvc.UID)
	}
	return nil
}

// SourceOf is the volume that a PersistentVolume stands for. A local volume is a
// hostPath that must be a directory. Of CSI drivers that of Amazon EFS alone is
// known: whether a backend can mount it is the backend's to say. Errors: Unsupported, naming the field, for
// kinds and settings that no backend can honour.
func SourceOf(pv *corev1.PersistentVolume) (Claim, error) {
	unsupported := func(field string) (Claim, error) {
		return Claim{}, backend.Errorf(backend.ErrUnsupported, "persistentvolume %q: %s is not supported", pv.Name, field)
	}
	switch {
	case pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode != corev1.PersistentVolumeFilesystem:
		return unsupported("spec.volumeMode " + string(*pv.Spec.VolumeMode))
	case !takesOptions(pv) && len(pv.Spec.MountOptions) > 0:
		return unsupported("spec.mountOptions")
	case !takesOptions(pv) && pv.Annotations[mountOptionsAnnotation] != "":
		return unsupported("metadata.annotations[" + mountOptionsAnnotation + "]")
	case pv.Annotations[volumeGIDAnnotation] != "":
		return unsupported("metadata.annotations[" + volumeGIDAnnotation + "]")
	case pv.Spec.HostPath != nil:
		return Claim{Source: corev1.VolumeSource{HostPath: pv.Spec.HostPath.DeepCopy()}}, nil
	case pv.Spec.Local != nil:
		kind := corev1.HostPathDirectory
		return Claim{Local: true, Source: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: pv.Spec.Local.Path, Type: &kind},
		}}, nil
	case pv.Spec.NFS != nil:
		return Claim{
			Source: corev1.VolumeSource{NFS: pv.Spec.NFS.DeepCopy()}, ReadOnly: pv.Spec.NFS.ReadOnly,
			MountOptions: mountOptions(pv),
		}, nil
	case isEFS(pv):
		csi := pv.Spec.CSI
		return Claim{
			Source: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
				Driver: csi.Driver, VolumeAttributes: csi.VolumeAttributes,
			}},
			Handle: csi.VolumeHandle, ReadOnly: csi.ReadOnly, MountOptions: mountOptions(pv),
		}, nil
	}
	return unsupported("spec." + KindOf(pv.Spec.PersistentVolumeSource))
}

func isEFS(pv *corev1.PersistentVolume) bool {
	return pv.Spec.CSI != nil && pv.Spec.CSI.Driver == efsDriver
}

// takesOptions is true of volumes whose mount options mean something.
func takesOptions(pv *corev1.PersistentVolume) bool { return pv.Spec.NFS != nil || isEFS(pv) }

// mountOptions of a volume stand in its spec, or in the annotation of old.
func mountOptions(pv *corev1.PersistentVolume) []string {
	if old := pv.Annotations[mountOptionsAnnotation]; old != "" {
		return strings.Split(old, ",")
	}
	return pv.Spec.MountOptions
}

// KindOf is the name of the field that is set in a source, a VolumeSource or a
// PersistentVolumeSource, as the API spells it ("awsElasticBlockStore"); "source"
// if none is that this program knows.
func KindOf(source any) string {
	// A volume source holds nothing that cannot be marshalled.
	b, err := json.Marshal(source)
	if err != nil {
		panic(fmt.Sprintf("marshal volume source: %v", err))
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(b, &fields); err != nil {
		panic(fmt.Sprintf("unmarshal volume source: %v", err))
	}
	if len(fields) == 0 {
		return "source"
	}
	return slices.Sorted(maps.Keys(fields))[0]
}
