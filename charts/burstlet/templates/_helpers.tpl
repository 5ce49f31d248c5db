{{- define "burstlet.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- /* 40 characters leave room for the suffixes of Jobs and Secrets. */ -}}
{{- define "burstlet.fullname" -}}
{{- $name := include "burstlet.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* The name of what stands beside no namespace or in somebody else's: releases of one
name in two namespaces do not meet. */ -}}
{{- define "burstlet.clusterName" -}}
{{- printf "%s:%s" .Release.Namespace (include "burstlet.fullname" .) -}}
{{- end -}}

{{- define "burstlet.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "burstlet.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "burstlet.selectorLabels" -}}
app.kubernetes.io/name: {{ include "burstlet.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "burstlet.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "burstlet.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "burstlet.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- /* The image of tasks, if Fargate may pull it; else empty. An image that is named by digest
       alone has the program of tasks too. */ -}}
{{- define "burstlet.taskImage" -}}
{{- $host := splitList "/" .Values.image.repository | first -}}
{{- if and (contains "." $host) (contains "/" .Values.image.repository) (not (regexMatch "^(127\\.|10\\.|192\\.168\\.)|\\.(local|svc|internal)(:|$)" $host)) -}}
{{- if .Values.image.taskDigest -}}
{{- printf "%s-task@%s" .Values.image.repository .Values.image.taskDigest -}}
{{- else if .Values.image.digest -}}
{{- include "burstlet.image" . -}}
{{- else -}}
{{- printf "%s-task:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Whole seconds of a duration such as 1m30s, rounded up. */ -}}
{{- define "burstlet.seconds" -}}
{{- $text := regexReplaceAll "[0-9.]+(ms|us|µs|ns)" (toString .) "" -}}
{{- $total := 0.0 -}}
{{- range $unit, $factor := dict "h" 3600 "m" 60 "s" 1 -}}
{{- range regexFindAll (printf "[0-9.]+%s" $unit) $text -1 -}}
{{- $total = addf $total (mulf (trimSuffix $unit . | float64) $factor) -}}
{{- end -}}
{{- end -}}
{{- $total | ceil | int -}}
{{- end -}}

{{- define "burstlet.leaderElection" -}}
{{- if (.Values.config.leaderElection | default dict).enabled -}}true{{- end -}}
{{- end -}}

{{- /* The Lease of all nodes of the release; empty: each node has its own. Several nodes have one,
unless the values give a name, be it empty. */ -}}
{{- define "burstlet.leaseName" -}}
{{- $election := .Values.config.leaderElection | default dict -}}
{{- if hasKey $election "name" -}}
{{- $election.name | default "" -}}
{{- else if gt (len (include "burstlet.nodes" . | fromYaml).nodes) 1 -}}
{{- include "burstlet.fullname" . }}-nodes
{{- end -}}
{{- end -}}

{{- /* Not empty where the running processes of the release fight for other leases than the
new ones will, or for none: then they must end first. */ -}}
{{- define "burstlet.electionChanges" -}}
{{- $file := dig "data" "burstlet.yaml" "" (lookup "v1" "ConfigMap" .Release.Namespace (include "burstlet.fullname" .)) -}}
{{- if $file -}}
{{- $former := (fromYaml $file).leaderElection | default dict -}}
{{- $now := .Values.config.leaderElection | default dict -}}
{{- if or (ne (toString ($former.enabled | default false)) (toString ($now.enabled | default false))) (ne ($former.namespace | default .Release.Namespace) ($now.namespace | default .Release.Namespace)) (ne ($former.name | default "") (include "burstlet.leaseName" .)) -}}
true
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "burstlet.healthzPort" -}}
{{- .Values.config.healthzPort | default 0 | int -}}
{{- end -}}

{{- define "burstlet.certDirectory" -}}
{{- .Values.config.certDirectory | default "/var/lib/burstlet/pki" -}}
{{- end -}}

{{- /* Not empty where the ServiceAccount is granted constrained impersonation. */ -}}
{{- define "burstlet.constrained" -}}
{{- $when := .Values.identity.constrainedImpersonation -}}
{{- if or (eq $when "always") (and (eq $when "auto") (semverCompare ">=1.36-0" .Capabilities.KubeVersion.Version)) -}}
true
{{- end -}}
{{- end -}}

{{- /* The rules of a role in files/rbac: root, file, kind, name, the namespace of a Role,
and the names of the nodes that stand for node burstlet there. The Deployment burstlet
there has the full name here. */ -}}
{{- define "burstlet.rules" -}}
{{- $root := index . 0 -}}
{{- $namespace := "" -}}
{{- if gt (len .) 4 -}}
{{- $namespace = index . 4 -}}
{{- end -}}
{{- $nodes := list -}}
{{- if gt (len .) 5 -}}
{{- $nodes = index . 5 -}}
{{- end -}}
{{- $found := list -}}
{{- range regexSplit "(?m)^---$" ($root.Files.Get (printf "files/rbac/%s" (index $ 1))) -1 -}}
{{- $object := fromYaml . -}}
{{- if and (eq ($object.kind | default "") (index $ 2)) (eq $object.metadata.name (index $ 3)) (eq ($object.metadata.namespace | default "") $namespace) -}}
{{- range $object.rules -}}
{{- if has "deployments/scale" .resources -}}
{{- $_ := set . "resourceNames" (list (include "burstlet.fullname" $root)) -}}
{{- else if has "users" .resources -}}
{{- $names := list -}}
{{- range $nodes -}}
{{- $names = append $names (printf "system:node:%s" .) -}}
{{- end -}}
{{- $_ := set . "resourceNames" $names -}}
{{- else if has "impersonate:arbitrary-node" .verbs -}}
{{- $_ := set . "resourceNames" $nodes -}}
{{- end -}}
{{- $found = append $found . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not $found -}}
{{- fail (printf "files/rbac/%s: no %s %s in %q" (index . 1) (index . 2) (index . 3) $namespace) -}}
{{- end -}}
rules:
{{ toYaml $found | indent 2 }}
{{- end -}}
