{{- /*
burstlet.nodes says what the chart must know of each node, in the order of names, as
{nodes: [...]}: name, type, port, ssh (its endpoint is reached over SSH), wants (its
keys come from sshKeys), own (keys of its own), dir (where they are mounted), secret,
inline (the chart makes that Secret), knownHosts (the key in the ConfigMap), entry (as
it stands in the configuration file).
*/ -}}
{{- define "burstlet.nodes" -}}
{{- $root := . -}}
{{- $common := .Values.config.backend | default dict -}}
{{- $port := int (dig "port" 0 (.Values.config.kubeletAPI | default dict) | default 10250) -}}
{{- $nodes := list -}}
{{- range $name, $given := .Values.nodes -}}
{{- if not (kindIs "invalid" $given) -}}
{{- $entry := deepCopy $given -}}
{{- $own := $entry.backend | default dict -}}
{{- $type := $own.type | default $common.type | default "" -}}
{{- $backend := deepCopy $own -}}
{{- if or (not $own.type) (eq $own.type ($common.type | default "")) -}}
{{- $backend = mustMergeOverwrite (deepCopy $common) (deepCopy $own) -}}
{{- end -}}
{{- $cri := $backend.cri | default dict -}}
{{- $node := dict "name" $name "type" $type "backend" $backend "ssh" (hasPrefix "ssh://" ($cri.endpoint | default "")) -}}
{{- $_ := set $node "port" (int (dig "port" 0 ($entry.kubeletAPI | default dict) | default (add $port (len $nodes)))) -}}
{{- include "burstlet.sshKeys" (dict "root" $root "node" $node "entry" $entry) -}}
{{- include "burstlet.entry" (dict "root" $root "node" $node "entry" $entry) -}}
{{- $nodes = append $nodes $node -}}
{{- end -}}
{{- end -}}
{{- toYaml (dict "nodes" $nodes) -}}
{{- end -}}

{{- /* burstlet.sshKeys notes in the node where its keys come from. */ -}}
{{- define "burstlet.sshKeys" -}}
{{- $node := .node -}}
{{- $ssh := ($node.backend.cri | default dict).ssh | default dict -}}
{{- $wants := and $node.ssh (not $ssh.keyFiles) (not $ssh.agent) -}}
{{- $release := .root.Values.sshKeys -}}
{{- $own := .entry.sshKeys | default dict -}}
{{- $fullname := include "burstlet.fullname" .root -}}
{{- $_ := set $node "wants" $wants -}}
{{- if $wants -}}
{{- $has := or $own.existingSecret $own.privateKey $own.knownHosts -}}
{{- $keys := ternary $own $release (not (empty (or $own.existingSecret $own.privateKey))) -}}
{{- $mine := not (empty (or $own.existingSecret $own.privateKey)) -}}
{{- $secret := $keys.existingSecret -}}
{{- if not $secret -}}
{{- $secret = ternary (printf "%s-ssh-%s" $fullname $node.name) (printf "%s-ssh" $fullname) $mine -}}
{{- end -}}
{{- $_ := set $node "own" (not (empty $has)) -}}
{{- $_ := set $node "given" (not (empty (or $keys.existingSecret $keys.privateKey))) -}}
{{- $_ := set $node "inline" (empty $keys.existingSecret) -}}
{{- $_ := set $node "secret" $secret -}}
{{- $_ := set $node "dir" (ternary (printf "/etc/burstlet/ssh-nodes/%s" $node.name) "/etc/burstlet/ssh" (not (empty $has))) -}}
{{- $_ := set $node "knownHosts" (ternary (printf "known_hosts-%s" $node.name) (ternary "known_hosts" "" (not (empty $release.knownHosts))) (not (empty $own.knownHosts))) -}}
{{- end -}}
{{- end -}}

{{- /* burstlet.entry notes in the node its entry of the configuration file. */ -}}
{{- define "burstlet.entry" -}}
{{- $node := .node -}}
{{- $entry := omit .entry "sshKeys" -}}
{{- $_ := set $entry "node" (mustMergeOverwrite (dict "name" $node.name) ($entry.node | default dict)) -}}
{{- if $node.wants -}}
{{- $backend := $entry.backend | default dict -}}
{{- $cri := $backend.cri | default dict -}}
{{- $ssh := $cri.ssh | default dict -}}
{{- $_ := set $ssh "keyFiles" (list (printf "%s/ssh-privatekey" $node.dir)) -}}
{{- $all := ($node.backend.cri | default dict).ssh | default dict -}}
{{- if not (or $all.knownHostsFile $all.insecureIgnoreHostKey) -}}
{{- $_ := set $ssh "knownHostsFile" (printf "%s/known_hosts" $node.dir) -}}
{{- end -}}
{{- $_ := set $cri "ssh" $ssh -}}
{{- $_ := set $backend "cri" $cri -}}
{{- $_ := set $entry "backend" $backend -}}
{{- end -}}
{{- if and (eq $node.type "ecs") (not (hasKey ($node.backend.ecs | default dict) "taskImage")) -}}
{{- with include "burstlet.taskImage" .root -}}
{{- $backend := $entry.backend | default dict -}}
{{- $_ := set $backend "ecs" (mustMergeOverwrite ($backend.ecs | default dict) (dict "taskImage" .)) -}}
{{- $_ := set $entry "backend" $backend -}}
{{- end -}}
{{- end -}}
{{- $_ := set $node "entry" $entry -}}
{{- end -}}

{{- /* burstlet.config is the configuration file. */ -}}
{{- define "burstlet.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $_ := set $config "apiVersion" "burstlet.dev/v1alpha1" -}}
{{- $_ := set $config "kind" "BurstletConfiguration" -}}
{{- $_ := set $config "certDirectory" (include "burstlet.certDirectory" .) -}}
{{- if .Values.serviceMonitor.enabled -}}
{{- $_ := set $config "healthzMetrics" true -}}
{{- end -}}
{{- $api := $config.kubeletAPI | default dict -}}
{{- if eq .Values.servingCertificate.mode "selfSigned" -}}
{{- $_ := set $api "selfSigned" true -}}
{{- else if eq .Values.servingCertificate.mode "csr" -}}
{{- $_ := set $api "serverTLSBootstrap" true -}}
{{- with .Values.servingCertificate.signerName -}}
{{- $_ := set $api "signerName" . -}}
{{- end -}}
{{- else -}}
{{- $_ := set $api "certFile" "/etc/burstlet/tls/tls.crt" -}}
{{- $_ := set $api "keyFile" "/etc/burstlet/tls/tls.key" -}}
{{- end -}}
{{- $_ := set $config "kubeletAPI" $api -}}
{{- if eq .Values.identity.mode "impersonation" -}}
{{- $_ := set $config "impersonateNode" true -}}
{{- else if eq .Values.identity.mode "bootstrap" -}}
{{- $_ := set $config "bootstrapKubeconfig" "/etc/burstlet/bootstrap/kubeconfig" -}}
{{- end -}}
{{- $lease := include "burstlet.leaseName" . -}}
{{- if and $lease (include "burstlet.leaderElection" .) -}}
{{- $_ := set $config.leaderElection "name" $lease -}}
{{- end -}}
{{- $entries := list -}}
{{- range (include "burstlet.nodes" . | fromYaml).nodes -}}
{{- $entries = append $entries .entry -}}
{{- end -}}
{{- $_ := set $config "nodes" $entries -}}
{{- toYaml $config -}}
{{- end -}}
