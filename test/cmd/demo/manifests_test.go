package main

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/burstlet/burstlet/test/parts/images"
)

func TestManifests(t *testing.T) {
	var deployment appsv1.Deployment
	var greeting corev1.ConfigMap
	readManifest(t, "hello.yaml", &greeting, &deployment)
	if greeting.Data["text"] == "" {
		t.Errorf("the ConfigMap holds %v", greeting.Data)
	}
	if deployment.Name != hello || *deployment.Spec.Replicas != helloPods {
		t.Errorf("%s has %d replicas", deployment.Name, *deployment.Spec.Replicas)
	}
	checkTemplate(t, hello, deployment.Spec.Template)
	if grace := *deployment.Spec.Template.Spec.TerminationGracePeriodSeconds; float64(grace) <= stopLimit.Seconds() {
		t.Errorf("a grace of %d s: containers that ignore SIGTERM would go unnoticed", grace)
	}

	var job batchv1.Job
	readManifest(t, "compute.yaml", &job)
	if job.Name != compute || *job.Spec.Completions != computePods {
		t.Errorf("%s has %d completions", job.Name, *job.Spec.Completions)
	}
	checkTemplate(t, compute, job.Spec.Template)
}

func readManifest(t *testing.T, name string, into ...any) {
	t.Helper()
	content, err := manifests.ReadFile("manifests/" + name)
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(string(content), "\n---\n")
	if len(documents) != len(into) {
		t.Fatalf("%s has %d objects", name, len(documents))
	}
	for i := range into {
		if err := yaml.UnmarshalStrict([]byte(documents[i]), into[i]); err != nil {
			t.Fatal(err)
		}
	}
}

// checkTemplate checks what pods need to run on the demo's node.
func checkTemplate(t *testing.T, app string, template corev1.PodTemplateSpec) {
	t.Helper()
	if template.Labels["app"] != app {
		t.Errorf("labels of %s: %v", app, template.Labels)
	}
	if c := template.Spec.Containers; len(c) != 1 || c[0].Image != images.BusyboxRef {
		t.Errorf("%s does not run the image that the host holds, %s", app, images.BusyboxRef)
	}
	if node := template.Spec.NodeSelector[corev1.LabelHostname]; node != nodeName {
		t.Errorf("%s wants node %q, not the demo's", app, node)
	}
	taint := corev1.Taint{Key: "virtual-kubelet.io/provider", Value: "burstlet", Effect: corev1.TaintEffectNoSchedule}
	if ts := template.Spec.Tolerations; len(ts) != 1 || ts[0].Key != taint.Key ||
		ts[0].Operator != corev1.TolerationOpExists {
		t.Errorf("%s does not tolerate %v", app, taint)
	}
}
