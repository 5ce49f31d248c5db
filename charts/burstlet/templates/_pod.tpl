{{- /* What the containers of the Deployment and of the removal Job have in common. */ -}}

{{- define "burstlet.env" -}}
{{- $config := .Values.config -}}
- name: BURSTLET_CONFIG
  value: /etc/burstlet/burstlet.yaml
{{- if not (($config.node | default dict).internalIP) }}
- name: BURSTLET_NODE_INTERNAL_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
{{- end }}
{{- if not $config.healthzBindAddress }}
- name: BURSTLET_HEALTHZ_BIND_ADDRESS
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "burstlet.volumeMounts" -}}
- name: config
  mountPath: /etc/burstlet/burstlet.yaml
  subPath: burstlet.yaml
  readOnly: true
- name: pki
  mountPath: {{ include "burstlet.certDirectory" . }}
{{- if eq .Values.identity.mode "bootstrap" }}
- name: bootstrap
  mountPath: /etc/burstlet/bootstrap
  readOnly: true
{{- end }}
{{- if eq .Values.servingCertificate.mode "secret" }}
- name: tls
  mountPath: /etc/burstlet/tls
  readOnly: true
{{- end }}
{{- $mounted := dict }}
{{- range (include "burstlet.nodes" . | fromYaml).nodes }}
{{- if and .wants (not (hasKey $mounted .dir)) }}
{{- $_ := set $mounted .dir true }}
- name: {{ include "burstlet.sshVolume" . }}
  mountPath: {{ .dir }}
  readOnly: true
{{- end }}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* A volume's name holds no dots and 63 characters. */ -}}
{{- define "burstlet.sshVolume" -}}
{{- if .own -}}
{{- printf "ssh-%s" (sha256sum .name | trunc 10) -}}
{{- else -}}
ssh
{{- end -}}
{{- end -}}

{{- define "burstlet.volumes" -}}
- name: config
  configMap:
    name: {{ include "burstlet.fullname" . }}
- name: pki
  emptyDir: {medium: Memory, sizeLimit: 16Mi}
{{- if eq .Values.identity.mode "bootstrap" }}
- name: bootstrap
  secret:
    secretName: {{ .Values.identity.bootstrap.existingSecret | default (printf "%s-bootstrap" (include "burstlet.fullname" .)) }}
    defaultMode: 0440
    items:
      - {key: kubeconfig, path: kubeconfig}
{{- end }}
{{- with .Values.servingCertificate.existingSecret }}
- name: tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- $mounted := dict }}
{{- range (include "burstlet.nodes" . | fromYaml).nodes }}
{{- if and .wants (not (hasKey $mounted .dir)) }}
{{- $_ := set $mounted .dir true }}
- name: {{ include "burstlet.sshVolume" . }}
  projected:
    defaultMode: 0440
    sources:
      - secret:
          name: {{ .secret }}
      {{- with .knownHosts }}
      - configMap:
          name: {{ include "burstlet.fullname" $ }}
          items:
            - {key: {{ . }}, path: known_hosts}
      {{- end }}
{{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* Where pods of the chart run: never on a virtual node, whose pods run elsewhere. */ -}}
{{- define "burstlet.affinity" -}}
{{- $affinity := deepCopy (.Values.affinity | default dict) -}}
{{- $node := $affinity.nodeAffinity | default dict -}}
{{- $required := $node.requiredDuringSchedulingIgnoredDuringExecution | default dict -}}
{{- $virtual := dict "key" "type" "operator" "NotIn" "values" (list "virtual-kubelet") -}}
{{- $terms := list -}}
{{- range $required.nodeSelectorTerms | default (list dict) -}}
{{- $terms = append $terms (mustMergeOverwrite (deepCopy .) (dict "matchExpressions" (append (.matchExpressions | default list) $virtual))) -}}
{{- end -}}
{{- $_ := set $node "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms) -}}
{{- $_ := set $affinity "nodeAffinity" $node -}}
{{- toYaml $affinity -}}
{{- end -}}

{{- /* Scheduling, account and security of every pod of the chart. */ -}}
{{- define "burstlet.podCommon" -}}
serviceAccountName: {{ .account }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
affinity:
  {{- include "burstlet.affinity" .root | nindent 2 }}
{{- with .root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
enableServiceLinks: false
{{- end -}}

{{- /* The network of burstlet's own pods. */ -}}
{{- define "burstlet.podNetwork" -}}
{{- if .Values.hostNetwork }}
hostNetwork: true
dnsPolicy: {{ .Values.dnsPolicy | default "ClusterFirstWithHostNet" }}
{{- else if .Values.dnsPolicy }}
dnsPolicy: {{ .Values.dnsPolicy }}
{{- end }}
{{- end -}}

{{- define "burstlet.probe" -}}
httpGet:
  path: {{ .path }}
  port: healthz
{{ toYaml .times }}
{{- end -}}
