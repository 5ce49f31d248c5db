package explain

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend/ecs/fargate"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

const explainConfig = `
apiVersion: burstlet.dev/v1alpha1
kind: BurstletConfiguration
node: {name: fargate, capacity: {cpu: 100, memory: 400Gi}}
backend:
  type: ecs
  ecs:
    region: eu-central-1
    cluster: burst
    subnets: [subnet-1]
    executionRoleARN: arn:aws:iam::123456789012:role/e
    taskRoleARN: arn:aws:iam::123456789012:role/t
    taskImage: registry.example/burstlet:1
`

// run explains the pods of a file on the nodes of a configuration.
func run(t *testing.T, format, yaml, file string) (string, error) {
	t.Helper()
	cfg, err := config.Load(config.Sources{File: saved(t, "c.yaml", yaml)})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := Read(strings.NewReader(""), []string{file})
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	err = Run(t.Context(), &out, cfg.Each(), pods, format)
	return out.String(), err
}

// explained explains some pods and reads the answer.
func explained(t *testing.T, pods, yaml string) ([]explanation, error) {
	t.Helper()
	text, failed := run(t, config.FormatJSON, yaml, saved(t, "pods.yaml", pods))
	var out []explanation
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v: %s (%v)", err, text, failed)
	}
	return out, failed
}

func saved(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const plain = `{containers: [{name: c, image: i}]}`

func TestExplainLooksAtPodsAndTemplates(t *testing.T) {
	got, err := explained(t, `
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: shop}
spec: `+plain+`
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec: {selector: {}, template: {spec: `+plain+`}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: m}
---
apiVersion: example.com/v1
kind: Thing
metadata: {name: t}
---
apiVersion: v1
kind: List
items:
- {apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: r}, spec: {selector: {}, template: {spec: `+plain+`}}}
- {apiVersion: apps/v1, kind: DaemonSet, metadata: {name: e}, spec: {selector: {}, template: {spec: `+plain+`}}}
- {apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {template: {spec: `+plain+`}}}
- {apiVersion: batch/v1, kind: CronJob, metadata: {name: c}, spec: {schedule: "", jobTemplate: {spec: {template: {spec: `+
		plain+`}}}}}
`, explainConfig)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range got {
		names = append(names, e.Pod)
		if !e.Accepted || e.Task == nil || e.Task.OnDemand <= 0 || e.Task.Spot >= e.Task.OnDemand || e.Backend != "ecs" ||
			e.Node != "fargate" {
			t.Errorf("%+v", e)
		}
	}
	want := []string{
		"Pod shop/p", "Deployment default/d", "ReplicaSet default/r", "DaemonSet default/e", "Job default/j",
		"CronJob default/c",
	}
	if d := cmp.Diff(want, names); d != "" {
		t.Error(d)
	}
}

func TestExplainTellsRefusedFieldsFirstAndFails(t *testing.T) {
	pod := `
apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {ecs.burstlet.dev/typo: x}}
spec: {hostNetwork: true, priority: 1, containers: [{name: c, image: i, imagePullPolicy: Never}]}
`
	got, err := explained(t, pod, explainConfig)
	if err == nil || err.Error() != "one pod is refused" || len(got) != 1 || got[0].Accepted || got[0].Task != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	var fields []string
	for _, f := range got[0].Refused {
		fields = append(fields, f.Field)
		if f.How == "" {
			t.Errorf("%s: no why", f.Field)
		}
	}
	if d := cmp.Diff([]string{
		"metadata.annotations[ecs.burstlet.dev/typo]", "spec.hostNetwork", "spec.containers[0].imagePullPolicy",
	}, fields); d != "" {
		t.Error(d)
	}
	for _, f := range got[0].Taken {
		if f.Field == "spec.hostNetwork" || f.Field == "spec.containers[0].imagePullPolicy" {
			t.Errorf("%s is taken and refused", f.Field)
		}
	}
	text, err := run(t, config.FormatText, explainConfig, saved(t, "p.yaml", pod))
	if err == nil || !strings.HasPrefix(text, "Pod default/p on node fargate (ecs): REFUSED\n  REFUSED  ") ||
		strings.Index(text, "  taken") < strings.LastIndex(text, "  REFUSED") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestExplainShowsNoSecret(t *testing.T) {
	text, err := run(t, config.FormatText, explainConfig, saved(t, "p.yaml", `
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {k: canary-7f3a}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  imagePullSecrets: [{name: r}]
  containers:
  - name: c
    image: i
    env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}, {name: B, value: "x$(A)"}, {name: C, valueFrom: {configMapKeyRef: {name: m, key: z}}}]
    envFrom: [{secretRef: {name: s}}]
    volumeMounts: [{name: v, mountPath: /v}, {name: w, mountPath: /w}]
  volumes: [{name: v, secret: {secretName: s, items: [{key: k, path: k}]}}, {name: w, persistentVolumeClaim: {claimName: q}}]
`))
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, wanted := range []string{
		`"name": "B"`, "c.B::", "repositoryCredentials", "efsVolumeConfiguration", "z of ConfigMap m", "0.25 vCPU, 0.5 GiB",
		"prices of eu-central-1 on " + fargate.PricesDate,
	} {
		if !strings.Contains(text, wanted) {
			t.Errorf("no %q in\n%s", wanted, text)
		}
	}
	for _, secret := range []string{"canary", "k of Secret"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q in\n%s", secret, text)
		}
	}
}

func TestExplainUsesThePricesOfTheConfiguration(t *testing.T) {
	got, err := explained(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: "+plain,
		explainConfig+"    prices: {vcpu: 4, gb: 2, armVCPU: 1, armGB: 1, storageGB: 0, spotFactor: 0.5}\n")
	if err != nil || got[0].Task.OnDemand != 2 || got[0].Task.Spot != 1 ||
		strings.Contains(got[0].Task.Prices, "us-east-1") {
		t.Errorf("%+v, %v", got[0].Task, err)
	}
}

// Where AWS's list lacks the region, prices that nobody configured are said to be another's.
func TestExplainSaysWhosePricesTheyAre(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: " + plain
	// eu-west-1's are those of us-east-1, to the cent
	const same = "    prices: {vcpu: 0.04048, gb: 0.004445, armVCPU: 0.03238, armGB: 0.00356, storageGB: 0.000111}\n"
	for name, tt := range map[string]struct {
		region, prices, says, not string
	}{
		"their region's":       {"us-east-1", "", "prices of us-east-1 on ", "set backend.ecs.prices"},
		"another region's own": {"eu-central-1", "", "prices of eu-central-1 on ", "set backend.ecs.prices"},
		"another's": {
			"cn-north-1", "", "for those of cn-north-1 set backend.ecs.prices", "prices of backend.ecs.prices",
		},
		"one's own":       {"eu-central-1", same, "prices of backend.ecs.prices", "us-east-1"},
		"one's own, here": {"us-east-1", same, "prices of backend.ecs.prices", "us-east-1"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := explained(t, pod, strings.Replace(explainConfig, "eu-central-1", tt.region, 1)+tt.prices)
			if err != nil {
				t.Fatal(err)
			}
			if p := got[0].Task.Prices; !strings.Contains(p, tt.says) || strings.Contains(p, tt.not) {
				t.Errorf("%s", p)
			}
		})
	}
}

func TestExplainWorksForOtherBackends(t *testing.T) {
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {hostNetwork: true, containers: [{name: c, image: i, command: [a], args: [b]}]}"
	for _, backend := range []string{"cri", "sim"} {
		got, err := explained(t, pod,
			"apiVersion: burstlet.dev/v1alpha1\nkind: BurstletConfiguration\nnode: {name: node}\nbackend: {type: "+backend+"}\n")
		if err != nil || !got[0].Accepted || got[0].Task != nil || len(got[0].Taken) == 0 ||
			(backend == "sim") != (len(got[0].Containers) == 1) || (backend == "cri") != (got[0].Host != nil) {
			t.Errorf("%s: %+v, %v", backend, got, err)
		}
	}
	got, err := explained(t, pod,
		"apiVersion: burstlet.dev/v1alpha1\nkind: BurstletConfiguration\nnode: {name: node}\nbackend: {type: cri}\npods: {hostNetwork: false}\n")
	if err == nil || got[0].Accepted || !strings.Contains(got[0].Refused[0].How, "hostNetwork") {
		t.Errorf("the configuration forbids it: %+v, %v", got, err)
	}
}

func TestExplainOfAStatefulSet(t *testing.T) {
	got, err := explained(t, `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: s}
spec:
  serviceName: web
  selector: {}
  volumeClaimTemplates: [{metadata: {name: data}}]
  template: {spec: {automountServiceAccountToken: false, containers: [{name: c, image: i, volumeMounts: [{name: data, mountPath: /d}]}]}}
`, explainConfig)
	if err != nil || !got[0].Accepted || len(got[0].Notes) != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	if task := string(got[0].Task.TaskDefinition) + string(got[0].Task.RunTask); !strings.Contains(task, unknownVolume) ||
		!strings.Contains(task, "s-0") {
		t.Error(task)
	}
}

func TestExplainTellsWhatItCannotRead(t *testing.T) {
	for name, tc := range map[string]struct{ pods, want string }{
		"an unknown field": {
			"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containerz: []}",
			`document 1: strict decoding error: unknown field "spec.containerz"`,
		},
		"no YAML": {"{", "document 1: "},
		"no pod":  {"apiVersion: v1\nkind: Service\nmetadata: {name: p}", "no pod and no workload"},
		"a bad later one": {
			"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n---\napiVersion: v1\nkind: Pod\nspec: 3", "document 2: ",
		},
	} {
		_, err := Read(nil, []string{saved(t, "p.yaml", tc.pods)})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
	for _, files := range [][]string{nil, {"/does/not/exist"}} {
		if _, err := Read(nil, files); err == nil {
			t.Errorf("%v: no error", files)
		}
	}
}

func TestExplainShowsWhatFilesOfThePodCost(t *testing.T) {
	const pod = `
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: /v}]}]
  volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: token}}]}}]
`
	for cfg, want := range map[string]string{
		explainConfig: "  files of this pod alone: in Secrets Manager, about $0.45 a month; with " +
			"backend.ecs.payloadBucket it would be $0.008\n",
		explainConfig +
			"    payloadBucket: payloads\n": "  files of this pod alone: in bucket payloads, about $0.008 a month; in " +
			"Secrets Manager it would be $0.45\n",
	} {
		if text, err := run(t, config.FormatText, cfg, saved(t, "pod.yaml", pod)); err != nil ||
			!strings.Contains(text, want) {
			t.Errorf("%v: no %s in %s", err, want, text)
		}
	}
}

func TestExplainShowsAVolumeMadeForThePod(t *testing.T) {
	const pod = `
apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {ecs.burstlet.dev/ebs-iops: "4000"}}
spec:
  containers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: /v}]}]
  volumes:
  - name: v
    ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 100Gi}}}}}
`
	with := explainConfig + "    ebs: {roleARN: arn:aws:iam::123456789012:role/v, volumeType: gp3}\n"
	got, err := explained(t, pod, with)
	if err != nil || got[0].Task == nil || got[0].Task.Volume != "100 GiB of EBS gp3, 4000 IOPS" ||
		!strings.Contains(string(got[0].Task.RunTask), `"sizeInGiB": 100`) {
		t.Fatalf("%v: %+v", err, got)
	}
	text, err := run(t, config.FormatText, with, saved(t, "pod.yaml", pod))
	if err != nil || !strings.Contains(text, "volume: 100 GiB of EBS gp3, 4000 IOPS, made for the pod") {
		t.Errorf("%v: %s", err, text)
	}
	got, err = explained(t, pod, explainConfig)
	if err == nil || len(got[0].Refused) != 1 || got[0].Refused[0].Field != "spec.volumes[0].ephemeral" ||
		!strings.Contains(got[0].Refused[0].How, "backend.ecs.ebs.roleARN") {
		t.Errorf("without a role: %v: %+v", err, got)
	}
}
