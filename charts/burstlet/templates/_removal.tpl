{{- define "burstlet.removalArgs" -}}
- remove-nodes
- --deployment={{ .Release.Namespace }}/{{ include "burstlet.fullname" . }}
- --timeout={{ .Values.removal.timeout }}
- --force-after={{ .Values.removal.forceAfter }}
{{- if .Values.removal.keepPods }}
- --keep-pods
{{- end }}
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{- /* It ends before Helm stops waiting, 30 s after the default of removal.timeout. A try
whose time was over (status 75) has said what remains: the next one is the user's. */ -}}
{{- define "burstlet.removalJob" -}}
backoffLimit: 2
activeDeadlineSeconds: {{ add (include "burstlet.seconds" .Values.removal.timeout | int) 20 }}
podFailurePolicy:
  rules:
    - action: FailJob
      onExitCodes:
        containerName: burstlet
        operator: In
        values: [75]
{{- end -}}

{{- /* Names, with commas, of nodes that the release has and the values have not. */ -}}
{{- define "burstlet.gone" -}}
{{- $fullname := include "burstlet.fullname" . -}}
{{- $file := dig "data" "burstlet.yaml" "" (lookup "v1" "ConfigMap" .Release.Namespace $fullname) -}}
{{- if and $file (lookup "apps/v1" "Deployment" .Release.Namespace $fullname) -}}
{{- $names := list -}}
{{- range (include "burstlet.nodes" . | fromYaml).nodes -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- $gone := list -}}
{{- range (fromYaml $file).nodes -}}
{{- if not (has .node.name $names) -}}
{{- $gone = append $gone .node.name -}}
{{- end -}}
{{- end -}}
{{- join "," $gone -}}
{{- end -}}
{{- end -}}

{{- /* Roles and bindings that exist while the hook runs: root, hook, name, account (who
gets them), election (the namespace of the elections' leases; none: the release's). */ -}}
{{- define "burstlet.removalRights" -}}
{{- if .root.Values.rbac.create -}}
{{- $root := .root -}}
{{- $hook := .hook -}}
{{- $cluster := printf "%s:%s" (include "burstlet.clusterName" .root) .name -}}
{{- $own := printf "%s:%s" (include "burstlet.fullname" .root) .name -}}
{{- $release := .root.Release.Namespace -}}
{{- $roles := list (list "ClusterRole" "" $cluster "") (list "Role" "default" $cluster "default") (list "Role" "kube-node-lease" $cluster "kube-node-lease") (list "Role" $release $own "burstlet") -}}
{{- $election := .election | default $release -}}
{{- $account := .account -}}
{{- if ne $election $release -}}
{{- $roles = append $roles (list "Role" $election $cluster "burstlet") -}}
{{- end -}}
{{- range $roles }}
{{- $kind := index . 0 }}
{{- $namespace := index . 1 }}
{{- $name := index . 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  name: {{ $name }}
  {{- with $namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "burstlet.labels" $root | nindent 4 }}
  annotations:
    {{- include "burstlet.rightsHook" $hook | nindent 4 }}
{{ include "burstlet.rules" (list $root "remove-nodes.yaml" $kind "burstlet:remove-nodes" (index . 3)) }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  name: {{ $name }}
  {{- with $namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "burstlet.labels" $root | nindent 4 }}
  annotations:
    {{- include "burstlet.rightsHook" $hook | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ $account }}
    namespace: {{ $root.Release.Namespace }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "burstlet.rightsHook" -}}
helm.sh/hook: {{ . }}
helm.sh/hook-weight: "-5"
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end -}}
