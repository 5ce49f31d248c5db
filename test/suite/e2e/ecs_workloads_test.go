package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/kit/wait"
)

// taskWorkloads are controllers whose pods are tasks.
var taskWorkloads = []row[*taskLife]{
	{"deployment", deploymentOnTasks},
	{"job", jobOnTasks},
	{"cronjob", cronJobOnTasks},
	{"statefulset", statefulSetOnTasks},
}

// cronPatience is the period of a CronJob, and what its pod takes.
const cronPatience = time.Minute + patience

// template is the row's pod as a controller makes it.
func (l *taskLife) template(argv []string, change ...func(*corev1.Pod)) corev1.PodTemplateSpec {
	pod := l.pod(argv, change...)
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "subject"}}, Spec: pod.Spec,
	}
}

// deploymentOnTasks: it is rolled out, and replaced by its next version with no
// fewer pods that are ready.
func deploymentOnTasks(l *taskLife) {
	replicas := int32(2)
	serves := func(text string) corev1.PodTemplateSpec {
		return l.template([]string{
			"sh", "-c", "mkdir /www; echo " + text + " >/www/index.html; exec httpd -f -p 8080 -h /www",
		}, func(pod *corev1.Pod) {
			pod.Spec.Containers[0].ReadinessProbe = every(1, 1, httpGet(8080))
		})
	}
	deployments := l.c.client.AppsV1().Deployments(l.namespace)
	d, err := deployments.Create(l.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "subject"}},
			Template: serves("one"),
		},
	}, metav1.CreateOptions{})
	l.must(err)
	rolled := func(generation int64) {
		l.Helper()
		wait.For(l.T, 2*patience, "the Deployment is rolled out", func() error {
			d, err := deployments.Get(l.Context(), "web", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if s := d.Status; s.ObservedGeneration < generation || s.ReadyReplicas != replicas ||
				s.UpdatedReplicas != replicas || s.Replicas != replicas {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
	}
	rolled(d.Generation)
	wait.For(l.T, patience, "update the Deployment", func() error { // its status changes, too
		if d, err = deployments.Get(l.Context(), "web", metav1.GetOptions{}); err != nil {
			return err
		}
		d.Spec.Template = serves("two")
		d, err = deployments.Update(l.Context(), d, metav1.UpdateOptions{})
		return err
	})
	rolled(d.Generation)
	addresses := map[string]bool{}
	list, err := l.pods().List(l.Context(), metav1.ListOptions{})
	l.must(err)
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.DeletionTimestamp != nil {
			continue
		}
		addresses[pod.Status.PodIP] = true
		l.prints("two\n", "exec", pod.Name, "--", "wget", "-qO-", "http://localhost:8080/")
	}
	if len(addresses) != int(replicas) {
		l.Errorf("the pods have the addresses %v", addresses)
	}
}

// jobOnTasks: one pod fails, another is started in its place, and the Job completes.
func jobOnTasks(l *taskLife) {
	l.fileSystem("data", "fs-0badcafe")
	backoff := int32(2)
	template := l.template([]string{
		"sh", "-c", "mkdir /data/tried || exit 0; exit 3",
	}, claim("data"), func(pod *corev1.Pod) {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	})
	_, err := l.c.client.BatchV1().Jobs(l.namespace).Create(l.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "job"}, Spec: batchv1.JobSpec{BackoffLimit: &backoff, Template: template},
	}, metav1.CreateOptions{})
	l.must(err)
	wait.For(l.T, 2*patience, "the Job completes", func() error {
		job, err := l.c.client.BatchV1().Jobs(l.namespace).Get(l.Context(), "job", metav1.GetOptions{})
		if err == nil && (job.Status.CompletionTime == nil || job.Status.Succeeded != 1 || job.Status.Failed != 1) {
			err = fmt.Errorf("%+v", job.Status)
		}
		return err
	})
}

// cronJobOnTasks: it comes due, and its Job completes.
func cronJobOnTasks(l *taskLife) {
	template := l.template(
		[]string{"echo", "it is time"}, func(pod *corev1.Pod) { pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure },
	)
	_, err := l.c.client.BatchV1().CronJobs(l.namespace).Create(l.Context(), &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "cron"},
		Spec: batchv1.CronJobSpec{
			Schedule: "* * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}},
		},
	}, metav1.CreateOptions{})
	l.must(err)
	var pod string
	wait.For(l.T, cronPatience, "a Job of the CronJob completes", func() error {
		jobs, err := l.c.client.BatchV1().Jobs(l.namespace).List(l.Context(), metav1.ListOptions{})
		if err != nil || len(jobs.Items) == 0 {
			return fmt.Errorf("%d jobs, %w", len(jobs.Items), err)
		}
		if first := jobs.Items[0].Status; first.Succeeded != 1 {
			return fmt.Errorf("of %d jobs the first has %d active, %d failed", len(jobs.Items), first.Active, first.Failed)
		}
		pods, err := l.pods().List(
			l.Context(), metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=" + jobs.Items[0].Name},
		)
		if err != nil || len(pods.Items) != 1 {
			return fmt.Errorf("%d pods, %w", len(pods.Items), err)
		}
		pod = pods.Items[0].Name
		return nil
	})
	l.comesToPrint("it is time\n", "logs", pod)
	l.must(l.c.client.BatchV1().CronJobs(l.namespace).Delete(l.Context(), "cron", metav1.DeleteOptions{}))
}

// statefulSetOnTasks: a pod that comes again has its name and its data, on a file
// system of Amazon EFS.
func statefulSetOnTasks(l *taskLife) {
	l.fileSystem("data-db-0", "fs-0123abcd")
	template := l.template([]string{
		"sh", "-c", "echo $(hostname) $(date +%s%N) >>/data/lives; exec sleep 1000",
	}, func(pod *corev1.Pod) {
		c := &pod.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "data", MountPath: "/data"})
		c.ReadinessProbe = every(1, 1, corev1.ProbeHandler{Exec: run("test -s /data/lives")})
	})
	sets := l.c.client.AppsV1().StatefulSets(l.namespace)
	one := int32(1)
	_, err := sets.Create(l.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "subject"}},
			Template: template, VolumeClaimTemplates: []corev1.PersistentVolumeClaim{*l.claimOf("data", "")},
		},
	}, metav1.CreateOptions{})
	l.must(err)
	first := l.member("db-0", "")
	l.must(l.pods().Delete(l.Context(), "db-0", metav1.DeleteOptions{}))
	l.member("db-0", string(first.UID))
	got := l.kubectl("", "exec", "db-0", "--", "cat", "/data/lives")
	lives := strings.Split(strings.TrimSpace(got.out), "\n")
	if got.code != 0 || len(lives) != 2 || slices.ContainsFunc(lives, func(s string) bool { return s == "" }) {
		l.Errorf("the file of both lives: %+v", got)
	}
}

// member waits for a pod to be Ready that is not the one before.
func (l *taskLife) member(name, before string) (pod *corev1.Pod) {
	l.Helper()
	wait.For(l.T, patience, name+" is Ready", func() (err error) {
		if pod, err = l.pods().Get(l.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		if string(pod.UID) == before {
			return errors.New("it is the one before")
		}
		return isReady(pod)
	})
	return pod
}

// fileSystem makes a PersistentVolume of Amazon EFS for a claim of the row.
func (l *taskLife) fileSystem(claim, handle string) {
	l.Helper()
	_, err := l.c.client.CoreV1().PersistentVolumes().Create(l.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: l.namespace},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, StorageClassName: "efs",
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: "efs.csi.aws.com", VolumeHandle: handle,
			}},
			ClaimRef: &corev1.ObjectReference{Namespace: l.namespace, Name: claim},
		},
	}, metav1.CreateOptions{})
	l.must(err)
	if claim != "data" {
		return // a StatefulSet makes its claims
	}
	_, err = l.c.client.CoreV1().PersistentVolumeClaims(l.namespace).Create(
		l.Context(), l.claimOf(claim, l.namespace), metav1.CreateOptions{},
	)
	l.must(err)
}

// claimOf is a claim, bound to a volume or to the one that waits for it.
func (l *taskLife) claimOf(name, volume string) *corev1.PersistentVolumeClaim {
	class := "efs"
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, StorageClassName: &class, VolumeName: volume,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}
}

// claim mounts the row's claim at /data.
func claim(name string) func(*corev1.Pod) {
	return mount(
		name, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}},
	)
}

// deleteAll deletes controllers and pods of every namespace.
func (s *cloud) deleteAll(t *testing.T) {
	t.Helper()
	namespaces, err := s.c.client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, ns := range namespaces.Items {
		if strings.HasPrefix(ns.Name, "kube-") || ns.Name == metav1.NamespaceDefault || ns.DeletionTimestamp != nil {
			continue
		}
		if err := s.c.client.CoreV1().Namespaces().Delete(t.Context(), ns.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
	wait.For(t, 2*patience, "no pod is left", func() error {
		list, err := s.c.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) > 0 {
			return fmt.Errorf("%d pods, %w", len(list.Items), err)
		}
		return nil
	})
}
