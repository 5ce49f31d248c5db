{{- /*
burstlet.checks ends the rendering where values that fit the schema do not fit each
other. Every message begins with the value.
*/ -}}
{{- define "burstlet.checks" -}}
{{- $nodes := (include "burstlet.nodes" . | fromYaml).nodes -}}
{{- if not $nodes -}}
{{- fail "nodes: give at least one node, as in --set nodes.demo.backend.type=sim; values.yaml shows others" -}}
{{- end -}}
{{- include "burstlet.checkProcess" . -}}
{{- include "burstlet.checkIdentity" (dict "root" . "nodes" $nodes) -}}
{{- include "burstlet.checkCertificate" . -}}
{{- $ports := dict (include "burstlet.healthzPort" .) "config.healthzPort" -}}
{{- range $nodes -}}
{{- $at := printf "nodes.%s" .name -}}
{{- if or (gt (len .name) 253) (not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$" .name)) -}}
{{- fail (printf "%s: %q is no name for a node: a-z, 0-9, - and . alone, and a letter or digit at both ends" $at .name) -}}
{{- end -}}
{{- if ne .entry.node.name .name -}}
{{- fail (printf "%s.node.name: %q is another name than the key; leave it out" $at .entry.node.name) -}}
{{- end -}}
{{- if hasKey $ports (toString .port) -}}
{{- fail (printf "%s.kubeletAPI.port: %d is taken by %s" $at (int .port) (get $ports (toString .port))) -}}
{{- end -}}
{{- $_ := set $ports (toString .port) $at -}}
{{- include "burstlet.checkBackend" (dict "root" $ "at" $at "node" .) -}}
{{- end -}}
{{- end -}}

{{- define "burstlet.checkProcess" -}}
{{- $v := .Values -}}
{{- range $key := list "name" "identity" -}}
{{- if get ($v.config.node | default dict) $key -}}
{{- fail (printf "config.node.%s: each node has its own: nodes.<name> for the name, nodes.<name>.node.identity" $key) -}}
{{- end -}}
{{- end -}}
{{- $elects := include "burstlet.leaderElection" . -}}
{{- if and (gt (int $v.replicas) 1) (not $elects) -}}
{{- fail "replicas: more than 1 needs config.leaderElection.enabled, or two processes would run the same pods" -}}
{{- end -}}
{{- if and $elects (eq (dig "mode" "" ($v.config.shutdown | default dict)) "drain") -}}
{{- fail "config.shutdown.mode: drain excludes leader election, where the next process takes the pods over: set config.leaderElection.enabled to false" -}}
{{- end -}}
{{- if eq (include "burstlet.healthzPort" .) "0" -}}
{{- fail "config.healthzPort: the probes need it: 1 to 65535" -}}
{{- end -}}
{{- $pdb := $v.podDisruptionBudget -}}
{{- if and $pdb.enabled (not (kindIs "invalid" $pdb.minAvailable)) -}}
{{- if not (kindIs "invalid" $pdb.maxUnavailable) -}}
{{- fail "podDisruptionBudget.minAvailable: excludes maxUnavailable: set that to null" -}}
{{- end -}}
{{- if and (not (kindIs "string" $pdb.minAvailable)) (ge (int $pdb.minAvailable) (int $v.replicas)) -}}
{{- fail (printf "podDisruptionBudget.minAvailable: %d of %d replicas would forbid every drain of a host" (int $pdb.minAvailable) (int $v.replicas)) -}}
{{- end -}}
{{- end -}}
{{- if and (not $v.serviceAccount.create) (not $v.serviceAccount.name) -}}
{{- fail "serviceAccount.name: with serviceAccount.create false, name the one that is there" -}}
{{- end -}}
{{- end -}}

{{- define "burstlet.checkIdentity" -}}
{{- $v := .root.Values -}}
{{- $mode := $v.identity.mode -}}
{{- $bootstrap := $v.identity.bootstrap -}}
{{- if and (ne $mode "impersonation") (ne $v.identity.constrainedImpersonation "auto") -}}
{{- fail (printf "identity.constrainedImpersonation: is for identity.mode impersonation, and the mode is %s" $mode) -}}
{{- end -}}
{{- if eq $mode "bootstrap" -}}
{{- if and $bootstrap.existingSecret $bootstrap.token.create -}}
{{- fail "identity.bootstrap.token.create: excludes identity.bootstrap.existingSecret" -}}
{{- else if not (or $bootstrap.existingSecret $bootstrap.token.create) -}}
{{- fail "identity.bootstrap: with identity.mode bootstrap give existingSecret, or token.create true" -}}
{{- end -}}
{{- if ne (empty $bootstrap.token.id) (empty $bootstrap.token.secret) -}}
{{- fail "identity.bootstrap.token: give both id and secret, or neither" -}}
{{- end -}}
{{- if and $bootstrap.token.create (not $bootstrap.token.expiration) -}}
{{- fail "identity.bootstrap.token.expiration: is required with token.create, as in 2030-01-02T15:04:05Z: whoever has the token can become the release's nodes. Each new pod of burstlet needs a token that is valid" -}}
{{- end -}}
{{- if and $bootstrap.autoApprove (not $v.approver.enabled) -}}
{{- fail "identity.bootstrap.autoApprove: the approver approves: set approver.enabled to true, or autoApprove to false" -}}
{{- end -}}
{{- else if or $bootstrap.existingSecret $bootstrap.token.create -}}
{{- fail (printf "identity.bootstrap: is for identity.mode bootstrap, and the mode is %s" $mode) -}}
{{- end -}}
{{- range $key := list "kubeconfig" "bootstrapKubeconfig" "impersonateNode" -}}
{{- if and (ne $mode "kubeconfig") (get $v.config $key) -}}
{{- fail (printf "config.%s: needs identity.mode kubeconfig, and extraVolumes with the file" $key) -}}
{{- end -}}
{{- end -}}
{{- range .nodes -}}
{{- $entry := .entry -}}
{{- $name := .name -}}
{{- range $key := list "kubeconfig" "bootstrapKubeconfig" "impersonateNode" -}}
{{- if and (ne $mode "kubeconfig") (get $entry $key) -}}
{{- fail (printf "nodes.%s.%s: needs identity.mode kubeconfig, and extraVolumes with the file" $name $key) -}}
{{- end -}}
{{- end -}}
{{- if and (eq $mode "kubeconfig") (not (or .entry.kubeconfig .entry.bootstrapKubeconfig $v.config.kubeconfig $v.config.bootstrapKubeconfig)) -}}
{{- fail (printf "nodes.%s.kubeconfig: with identity.mode kubeconfig name the file with the node's credential" .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "burstlet.checkCertificate" -}}
{{- $v := .Values -}}
{{- $serving := $v.servingCertificate -}}
{{- range $key := list "certFile" "keyFile" "selfSigned" "serverTLSBootstrap" "signerName" -}}
{{- if get ($v.config.kubeletAPI | default dict) $key -}}
{{- fail (printf "config.kubeletAPI.%s: the chart sets it: see servingCertificate" $key) -}}
{{- end -}}
{{- end -}}
{{- if and (eq $serving.mode "secret") (not $serving.existingSecret) -}}
{{- fail "servingCertificate.existingSecret: with servingCertificate.mode secret name a Secret with tls.crt and tls.key" -}}
{{- else if and (ne $serving.mode "secret") $serving.existingSecret -}}
{{- fail (printf "servingCertificate.existingSecret: is for servingCertificate.mode secret, and the mode is %s" $serving.mode) -}}
{{- end -}}
{{- if and (ne $serving.mode "csr") $serving.signerName -}}
{{- fail (printf "servingCertificate.signerName: is for servingCertificate.mode csr, and the mode is %s" $serving.mode) -}}
{{- end -}}
{{- if and (eq $serving.mode "csr") $serving.signerName (ne $serving.signerName "kubernetes.io/kubelet-serving") $v.approver.enabled -}}
{{- fail (printf "approver.enabled: it approves for kubernetes.io/kubelet-serving alone, not for %s: set it to false" $serving.signerName) -}}
{{- end -}}
{{- end -}}

{{- define "burstlet.checkBackend" -}}
{{- $v := .root.Values -}}
{{- $node := .node -}}
{{- $at := printf "%s.backend" .at -}}
{{- $backend := $node.backend -}}
{{- if not $node.type -}}
{{- fail (printf "%s.type: give cri, ecs or sim, here or in config.backend.type" $at) -}}
{{- end -}}
{{- range $section := list "cri" "ecs" "sim" -}}
{{- if and (ne $section $node.type) (get $backend $section) -}}
{{- fail (printf "%s.%s: the type of this node is %s; nothing of another backend may be set" $at $section $node.type) -}}
{{- end -}}
{{- end -}}
{{- if and $v.hostNetwork (eq (int $node.port) 10250) -}}
{{- fail (printf "%s.kubeletAPI.port: with hostNetwork 10250 is the port of the host's own kubelet; set config.kubeletAPI.port, to 10350 for example" .at) -}}
{{- end -}}
{{- if eq $node.type "ecs" -}}
{{- $ecs := $backend.ecs | default dict -}}
{{- range $key := list "region" "cluster" "subnets" -}}
{{- if not (get $ecs $key) -}}
{{- fail (printf "%s.ecs.%s: a node on ecs needs it" $at $key) -}}
{{- end -}}
{{- end -}}
{{- $capacity := mustMergeOverwrite (deepCopy (($v.config.node | default dict).capacity | default dict)) ($node.entry.node.capacity | default dict) -}}
{{- range $key := list "cpu" "memory" -}}
{{- if not (get $capacity $key) -}}
{{- fail (printf "nodes.%s.node.capacity.%s: Fargate has no size of its own: say how much of the account's quota the node may use" $node.name $key) -}}
{{- end -}}
{{- end -}}
{{- else if eq $node.type "cri" -}}
{{- include "burstlet.checkHost" (dict "root" .root "node" $node "at" $at) -}}
{{- end -}}
{{- end -}}

{{- define "burstlet.checkHost" -}}
{{- $v := .root.Values -}}
{{- $node := .node -}}
{{- $own := dig $node.name "sshKeys" dict $v.nodes | default dict -}}
{{- range $at, $keys := dict "sshKeys" $v.sshKeys (printf "nodes.%s.sshKeys" $node.name) $own -}}
{{- if and $keys.existingSecret $keys.privateKey -}}
{{- fail (printf "%s.privateKey: excludes existingSecret" $at) -}}
{{- end -}}
{{- end -}}
{{- $endpoint := ($node.backend.cri | default dict).endpoint | default "" -}}
{{- if and $endpoint (not (regexMatch "^(unix:///.+|ssh://[^/?#@:\\s]+@[^/?#@\\s]+)$" $endpoint)) -}}
{{- fail (printf "%s.cri.endpoint: %q must be ssh://user@host, ssh://user@host:port or unix:///path/of/socket, and hold no password" .at $endpoint) -}}
{{- end -}}
{{- if and (not $node.ssh) (not $v.extraVolumes) -}}
{{- fail (printf "%s.cri.endpoint: give ssh://user@host, or mount the runtime's socket with extraVolumes" .at) -}}
{{- end -}}
{{- if $node.wants -}}
{{- if not $node.given -}}
{{- fail (printf "nodes.%s.sshKeys: its host is reached over SSH: give existingSecret, here or in sshKeys" $node.name) -}}
{{- end -}}
{{- $ssh := ($node.backend.cri | default dict).ssh | default dict -}}
{{- if and $node.inline (not $node.knownHosts) (not (or $ssh.knownHostsFile $ssh.insecureIgnoreHostKey)) -}}
{{- fail (printf "nodes.%s.sshKeys.knownHosts: give the host's keys (ssh-keyscan), here or in sshKeys, beside privateKey" $node.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
