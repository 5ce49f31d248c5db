package resolve

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

func TestSourceOf(t *testing.T) {
	nfs := func() *corev1.NFSVolumeSource { return &corev1.NFSVolumeSource{Server: "s", Path: "/e"} }
	for name, tc := range map[string]struct {
		pv      corev1.PersistentVolume
		want    Claim
		wantErr string
	}{
		"hostPath": {
			pv:   pvOf(corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/h"}}),
			want: Claim{Source: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/h"}}},
		},
		"local is a directory of the host that must be there": {
			pv: pvOf(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/d"}}),
			want: Claim{Local: true, Source: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
				Path: "/d", Type: ptr(corev1.HostPathDirectory),
			}}},
		},
		"nfs": {
			pv:   pvOf(corev1.PersistentVolumeSource{NFS: nfs()}),
			want: Claim{Source: corev1.VolumeSource{NFS: nfs()}},
		},
		"nfs, read-only": {
			pv: pvOf(corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/e", ReadOnly: true}}),
			want: Claim{
				Source: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/e", ReadOnly: true}}, ReadOnly: true,
			},
		},
		"csi": {
			pv:      pvOf(corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d"}}),
			wantErr: `persistentvolume "pv": spec.csi is not supported`,
		},
		"one of Amazon EFS": {
			pv: corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
				MountOptions: []string{"tls"},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
					Driver: "efs.csi.aws.com", VolumeHandle: "fs-1::fsap-2", ReadOnly: true,
					VolumeAttributes: map[string]string{"encryptInTransit": "true"},
				}},
			}},
			want: Claim{
				Source: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
					Driver: "efs.csi.aws.com", VolumeAttributes: map[string]string{"encryptInTransit": "true"},
				}},
				Handle: "fs-1::fsap-2", ReadOnly: true, MountOptions: []string{"tls"},
			},
		},
		"a kind as the API spells it": {
			pv:      pvOf(corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}}),
			wantErr: `persistentvolume "pv": spec.awsElasticBlockStore is not supported`,
		},
		"block": {
			pv: corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
				VolumeMode: ptr(corev1.PersistentVolumeBlock), PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: nfs()},
			}},
			wantErr: `persistentvolume "pv": spec.volumeMode Block is not supported`,
		},
		"mount options": {
			pv: corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
				MountOptions: []string{"nolock"}, PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: nfs()},
			}},
			want: Claim{Source: corev1.VolumeSource{NFS: nfs()}, MountOptions: []string{"nolock"}},
		},
		"mount options as they once were": {
			pv: corev1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{
					Name: "pv", Annotations: map[string]string{corev1.MountOptionAnnotation: "soft,nolock"},
				},
				Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: nfs()}},
			},
			want: Claim{Source: corev1.VolumeSource{NFS: nfs()}, MountOptions: []string{"soft", "nolock"}},
		},
		"mount options of a directory": {
			pv: corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
				MountOptions:           []string{"noatime"},
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/d"}},
			}},
			wantErr: `persistentvolume "pv": spec.mountOptions is not supported`,
		},
		"a group": {
			pv: corev1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: "pv", Annotations: map[string]string{"pv.beta.kubernetes.io/gid": "7"}},
				Spec:       corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: nfs()}},
			},
			wantErr: `persistentvolume "pv": metadata.annotations[pv.beta.kubernetes.io/gid] is not supported`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := SourceOf(&tc.pv)
			if tc.wantErr != "" {
				if err == nil || err.Error() != tc.wantErr || !errors.Is(err, backend.ErrUnsupported) {
					t.Errorf("error = %v, want %s", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func pvOf(source corev1.PersistentVolumeSource) corev1.PersistentVolume {
	return corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec:       corev1.PersistentVolumeSpec{PersistentVolumeSource: source},
	}
}

func TestCheckClaim(t *testing.T) {
	pod := testPod(corev1.Container{})
	for name, tc := range map[string]struct {
		change    func(*corev1.PersistentVolumeClaim)
		ephemeral bool
		want      string
	}{
		"bound": {},
		"not bound": {
			change: func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending }, want: "PVC is not bound",
		},
		"without a name": {
			change: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "" }, want: "PVC has empty pvc.Spec.VolumeName",
		},
		"deleted": {
			change: func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{} }, want: "PVC is being deleted",
		},
		"deleted, but protected while it is used": {change: func(c *corev1.PersistentVolumeClaim) {
			c.DeletionTimestamp, c.Finalizers = &metav1.Time{}, []string{"kubernetes.io/pvc-protection"}
		}},
		"somebody else's": {ephemeral: true, want: "PVC ns/c was not created for pod ns/p (pod is not owner)"},
		"the pod's own": {ephemeral: true, change: func(c *corev1.PersistentVolumeClaim) {
			c.OwnerReferences = []metav1.OwnerReference{{UID: pod.UID, Controller: ptr(true)}}
		}},
		"one of a former pod of that name": {ephemeral: true, change: func(c *corev1.PersistentVolumeClaim) {
			c.OwnerReferences = []metav1.OwnerReference{{UID: "u-0", Controller: ptr(true)}}
		}, want: "PVC ns/c was not created for pod ns/p (pod is not owner)"},
	} {
		t.Run(name, func(t *testing.T) {
			pvc := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"},
				Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
				Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
			}
			if tc.change != nil {
				tc.change(pvc)
			}
			got := ""
			if err := CheckClaim(pod, ClaimRef{Name: "c", Ephemeral: tc.ephemeral}, pvc); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("error = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestCheckBinding(t *testing.T) {
	pvc := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: "1"}}
	for want, ref := range map[string]*corev1.ObjectReference{
		"": {UID: types.UID("1")},
		"found PV object pv but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim": nil,
		"found PV object pv but its pv.Spec.ClaimRef.UID 2 does not point to claim.UID 1":                  {UID: "2"},
	} {
		pv := pvOf(corev1.PersistentVolumeSource{})
		pv.Spec.ClaimRef = ref
		got := ""
		if err := CheckBinding(pvc, &pv); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("error = %q, want %q", got, want)
		}
	}
}
