{{/*
hack/generate copies the manifests of the repository's deploy/ to files/, unchanged.
Templates read those, apply the values and the namespace of the release, and write the
rest unchanged: every permission, rule and security context is defined in one place.
*/}}

{{/* The label selector in a flag. */}}
{{- define "osm-gitops.selector" -}}
{{- get (.Values.flags | default dict) "watch-label-selector" | default "" -}}
{{- end -}}

{{/*
"true" if this release is a shard: a flag selects a part of the pools, which does not include those
without labels. Another release handles these: it has the names of the repository's deploy/, and all
objects that exist once.

Selectors of objects without labels consist of "!key", "key!=value" and "key notin (values)" alone.
*/}}
{{- define "osm-gitops.shard" -}}
{{- $selector := include "osm-gitops.selector" . -}}
{{- $key := "[^\\s,()=!<>]+" -}}
{{- $rest := printf "(!\\s*%s|%s\\s*!=\\s*[^\\s,()=!<>]*|%s\\s+notin\\s*\\([^()]*\\))" $key $key $key -}}
{{- if and (trim $selector) (not (regexMatch (printf "^\\s*%s(\\s*,\\s*%s)*\\s*$" $rest $rest) $selector)) }}true{{ end -}}
{{- end -}}

{{/* The name, or prefix of the names, of the controller's objects. */}}
{{- define "osm-gitops.name" -}}
{{- if include "osm-gitops.shard" . }}{{ .Release.Name }}{{ else }}osm-gitops{{ end -}}
{{- end -}}

{{/* The ServiceAccount. A shard uses the permissions of the main release. */}}
{{- define "osm-gitops.serviceAccount" -}}
{{- if .Values.observe }}osm-gitops-dry-run{{ else }}osm-gitops{{ end -}}
{{- end -}}

{{/*
Replaces null values by their default if that is empty or false: null is how Helm removes a
value. For other defaults, such as networkPolicy.enabled, null would be ambiguous, and is
rejected: {{ include "osm-gitops.complete" (list $values $defaults "") }}
*/}}
{{- define "osm-gitops.complete" -}}
{{- $values := index . 0 -}}
{{- $path := index . 2 -}}
{{- range $key, $default := index . 1 -}}
{{- $name := printf "%s%s" $path $key -}}
{{- $null := kindIs "invalid" (index $values $key) -}}
{{- if eq $name "resources" -}}
{{- /* Requests and limits are the one thing here that null is needed for: to have none. */ -}}
{{- if $null }}{{ $_ := set $values $key dict }}{{ end -}}
{{- else if and $default (kindIs "map" $default) -}}
{{- if $null }}{{ $_ := set $values $key dict }}{{ end -}}
{{- include "osm-gitops.complete" (list (index $values $key) $default (printf "%s." $name)) -}}
{{- else if and $default $null -}}
{{- fail (printf "%s is null: leave it out for %s, or write %s. If you did not write null, --reuse-values did: upgrade with --reset-then-reuse-values" $name (toJson $default) (ternary "false" "another" (kindIs "bool" $default))) -}}
{{- else if $null -}}
{{- $_ := set $values $key $default -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Completes values, and disables what does not apply to this kind of release. Every template begins with it. */}}
{{- define "osm-gitops.settle" -}}
{{- $v := .Values -}}
{{- include "osm-gitops.complete" (list $v (.Files.Get "files/values.yaml" | fromYaml) "") -}}
{{- $shard := include "osm-gitops.shard" . -}}
{{- if or $v.observe $shard -}}
{{- $_ := set $v.webhook "enabled" false -}}
{{- $_ := set $v.admission "policies" false -}}
{{- $_ := set $v.cloudInitSettings "create" false -}}
{{- end -}}
{{- if $v.observe -}}
{{- $_ := set $v.hooks "enabled" false -}}
{{- $_ := set $v.ui "enabled" false -}}
{{- end -}}
{{- if $shard -}}
{{- $_ := set $v.crds "install" false -}}
{{- $_ := set $v.appliers "enabled" false -}}
{{- $_ := set $v.metrics.prometheusRule "enabled" false -}}
{{- end -}}
{{- end -}}

{{/*
The documents of a file, as {"items": [...]}: {{ include "osm-gitops.read" (list $ "rbac.yaml") | fromYaml }}
Pods of a shard have their own labels, and selectors use these.
*/}}
{{- define "osm-gitops.read" -}}
{{- $items := list -}}
{{- $text := required (printf "the chart lacks files/%s" (index . 1)) ((index . 0).Files.Get (printf "files/%s" (index . 1))) -}}
{{- if include "osm-gitops.shard" (index . 0) -}}
{{- $text = regexReplaceAll "(?m)^( *)app\\.kubernetes\\.io/name: osm-gitops$" $text (printf "${1}app.kubernetes.io/name: osm-gitops-shard\n${1}app.kubernetes.io/instance: %q" (index . 0).Release.Name) -}}
{{- end -}}
{{- range regexSplit "(?m)^---$" $text -1 -}}
{{- $o := fromYaml . -}}
{{- if $o }}{{ $items = append $items $o }}{{ end -}}
{{- end -}}
{{- dict "items" $items | toYaml -}}
{{- end -}}

{{/* An object with the labels of the chart, as a document: {{ include "osm-gitops.write" (list $ $o) }} */}}
{{- define "osm-gitops.write" -}}
{{- $root := index . 0 -}}
{{- $o := index . 1 -}}
{{- $labels := dict "app.kubernetes.io/managed-by" $root.Release.Service "app.kubernetes.io/instance" $root.Release.Name "helm.sh/chart" (printf "%s-%s" $root.Chart.Name ($root.Chart.Version | replace "+" "_")) -}}
{{- $_ := set $o.metadata "labels" (merge $labels ($o.metadata.labels | default dict) (dict "app.kubernetes.io/name" "osm-gitops")) }}
---
{{ toYaml $o }}
{{ end -}}

{{/* Sets the namespace of the release in subjects of a binding in a fixed namespace. */}}
{{- define "osm-gitops.subjects" -}}
{{- range .o.subjects -}}
{{- if has .name (list "osm-gitops" "osm-gitops-dry-run") }}{{ $_ := set . "namespace" $.namespace }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "osm-gitops.image" -}}
{{- $image := .Values.image -}}
{{- $repository := required "image.repository is not set: name the registry that has your copy of the image, such as --set image.repository=registry.example.com/platform/osm-gitops" $image.repository -}}
{{- if $image.digest -}}
{{ $repository }}@{{ $image.digest }}
{{- else -}}
{{ $repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* Checks that the schema cannot express, or not clearly, such as those of two values. */}}
{{- define "osm-gitops.check" -}}
{{- $v := .Values -}}
{{- if and (gt (int $v.replicas) 1) (not $v.leaderElect) -}}
{{- fail "leaderElect=false with replicas above 1: two replicas would write at the same time. Set replicas=1, or leaderElect=true" -}}
{{- end -}}
{{- if and (eq $v.mode "management") (not $v.workerCluster.kubeconfigSecret.name) -}}
{{- fail "workerCluster.kubeconfigSecret.name is not set: with mode=management name the Secret with the kubeconfig of the worker cluster" -}}
{{- end -}}
{{- if and (ne $v.mode "management") $v.workerCluster.kubeconfigSecret.name -}}
{{- fail (printf "workerCluster.kubeconfigSecret.name is set, and mode is %s: set mode=management, or leave the Secret out" $v.mode) -}}
{{- end -}}
{{- $shard := include "osm-gitops.shard" . -}}
{{- if and $shard (eq .Release.Name "osm-gitops") -}}
{{- fail (printf "flags.watch-label-selector is %q, which takes a part of the pools, and the release is called osm-gitops, as the objects of the release with the rest are: call it otherwise, such as osm-gitops-a" (include "osm-gitops.selector" .)) -}}
{{- end -}}
{{- if and $shard (not (regexMatch "^[a-z]([-a-z0-9]{0,53}[a-z0-9])?$" .Release.Name)) -}}
{{- fail (printf "the release is called %s, and the Services of a shard are called like it: take a name of at most 55 small letters, digits and dashes that begins with a letter and ends with no dash, such as osm-gitops-%s" .Release.Name (.Release.Name | replace "." "-" | trunc 44 | trimSuffix "-")) -}}
{{- end -}}
{{- if and $shard $v.observe -}}
{{- fail "observe is set, and flags.watch-label-selector takes a part of the pools: observe all of them with one release, or those without labels" -}}
{{- end -}}
{{- if not (regexMatch "^[0-9]+(\\.[0-9]+)?(k|Ki|[MGTPE]i?)?$" $v.cache.sizeLimit) -}}
{{- fail (printf "cache.sizeLimit is %q, which is no size: write bytes, or a number with k, M, G, T, P or E (thousands), or with Ki, Mi, Gi, Ti, Pi or Ei (1024s) behind it, such as 500M or 2Gi" $v.cache.sizeLimit) -}}
{{- end -}}
{{- range $v.extraArgs -}}
{{- if regexMatch "^--?(watch-label-selector|observe|dry-run)(=|$)" . -}}
{{- fail (printf "extraArgs has %s, which asks for other rights: set flags.watch-label-selector or observe, and run --dry-run by hand" .) -}}
{{- end -}}
{{- end -}}
{{- if and $v.webhook.url (ne $v.mode "worker") -}}
{{- fail (printf "webhook.url is set, and mode is %s: it is for mode=worker; elsewhere API servers call the Service" $v.mode) -}}
{{- end -}}
{{- if and $v.ui.enabled (not $v.ui.tlsSecret) (ne $v.mode "worker") -}}
{{- fail "ui.tlsSecret is not set: the audit page asks for tokens, and needs TLS. Name a Secret of type kubernetes.io/tls" -}}
{{- end -}}
{{- if and $v.metrics.serviceMonitor.enabled $v.networkPolicy.enabled (not $v.networkPolicy.metricsFrom) (ne $v.mode "worker") -}}
{{- fail "networkPolicy.metricsFrom is not set: Prometheus would not reach the metrics. Name its namespace, such as [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]" -}}
{{- end -}}
{{- end -}}

{{/* The controller's arguments, as {"args": [...]}. */}}
{{- define "osm-gitops.args" -}}
{{- $v := .Values -}}
{{- $args := list -}}
{{- if not $v.leaderElect }}{{ $args = append $args "--leader-elect=false" }}{{ end -}}
{{- if eq $v.mode "management" -}}
{{- $args = concat $args (list (printf "--worker-cluster-kubeconfig=/etc/osm-gitops/worker-cluster/%s" $v.workerCluster.kubeconfigSecret.key) "--worker-health-probe-address=:8086" "--worker-metrics-address=0") -}}
{{- end -}}
{{- if $v.observe -}}
{{- $args = append $args "--observe" -}}
{{- else if not $v.webhook.enabled -}}
{{- $args = append $args "--webhook-address=0" -}}
{{- end -}}
{{- if $v.hooks.enabled -}}
{{- $args = append $args "--hooks-address=:9292" -}}
{{- if $v.hooks.tlsSecret -}}
{{- $args = concat $args (list "--hooks-cert-file=/etc/osm-gitops/hooks/tls.crt" "--hooks-key-file=/etc/osm-gitops/hooks/tls.key") -}}
{{- end -}}
{{- end -}}
{{- if $v.ui.enabled -}}
{{- $args = concat $args (list "--ui-address=0.0.0.0:8443" "--ui-tls-cert=/etc/osm-gitops/ui/tls.crt" "--ui-tls-key=/etc/osm-gitops/ui/tls.key") -}}
{{- end -}}
{{- with $v.cloudProvider.references }}{{ $args = append $args (printf "--cloud-provider-references=%s" (join "," .)) }}{{ end -}}
{{- range $name, $value := $v.flags -}}
{{- if kindIs "slice" $value -}}
{{- range $value }}{{ $args = append $args (printf "--%s=%s" $name (toString .)) }}{{ end -}}
{{- else if kindIs "float64" $value -}}
{{- $args = append $args (printf "--%s=%s" $name ($value | int64 | toString)) -}}
{{- else if not (kindIs "invalid" $value) -}}
{{- $args = append $args (printf "--%s=%s" $name (toString $value)) -}}
{{- end -}}
{{- end -}}
{{- dict "args" (concat $args $v.extraArgs) | toYaml -}}
{{- end -}}
