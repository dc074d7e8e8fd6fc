{{/* Changes the Deployment of files/controller as values ask for: {{ include "osm-gitops.deployment" (list $ $o) }} */}}
{{- define "osm-gitops.deployment" -}}
{{- $root := index . 0 -}}
{{- $v := $root.Values -}}
{{- $spec := (index . 1).spec -}}
{{- $meta := $spec.template.metadata -}}
{{- $pod := $spec.template.spec -}}
{{- $c := first $pod.containers -}}
{{- $_ := set $spec "replicas" (int $v.replicas) -}}
{{- $_ := set $pod "serviceAccountName" (include "osm-gitops.serviceAccount" $root) -}}
{{- if not $v.leaderElect }}{{ $_ := set $spec "strategy" (dict "type" "Recreate") }}{{ end -}}
{{- $_ := set $meta "labels" (merge $meta.labels $v.podLabels) -}}
{{- $_ := set $meta "annotations" (merge $meta.annotations $v.podAnnotations) -}}
{{- $_ := set $c "image" (include "osm-gitops.image" $root) -}}
{{- $_ := set $c "imagePullPolicy" $v.image.pullPolicy -}}
{{- $_ := set $c "resources" $v.resources -}}
{{- $_ := set $c "args" (concat $c.args ((include "osm-gitops.args" $root | fromYaml).args | default list)) -}}
{{- $env := list -}}
{{- range $c.env -}}
{{- if eq .name "GOMEMLIMIT" -}}
{{- if $v.goMemLimit }}{{ $env = append $env (set . "value" $v.goMemLimit) }}{{ end -}}
{{- else -}}
{{- $env = append $env . -}}
{{- end -}}
{{- end -}}
{{- $_ := set $c "env" (concat $env $v.extraEnv) -}}
{{- $ports := list -}}
{{- range $c.ports -}}
{{- if or $v.webhook.enabled (ne .name "webhook") }}{{ $ports = append $ports . }}{{ end -}}
{{- end -}}
{{- $secrets := dict -}}
{{- if eq $v.mode "management" -}}
{{- $ports = append $ports (dict "name" "worker-health" "containerPort" 8086) -}}
{{- $_ := set $secrets "worker-cluster" $v.workerCluster.kubeconfigSecret.name -}}
{{- end -}}
{{- if $v.hooks.enabled -}}
{{- $ports = append $ports (dict "name" "hooks" "containerPort" 9292) -}}
{{- if $v.hooks.tlsSecret }}{{ $_ := set $secrets "hooks" $v.hooks.tlsSecret }}{{ end -}}
{{- end -}}
{{- if $v.ui.enabled -}}
{{- $ports = append $ports (dict "name" "ui" "containerPort" 8443) -}}
{{- $_ := set $secrets "ui" $v.ui.tlsSecret -}}
{{- end -}}
{{- $_ := set $c "ports" $ports -}}
{{- $mounts := $c.volumeMounts -}}
{{- $volumes := list -}}
{{- range $pod.volumes -}}
{{- if eq .name "cache" }}{{ $_ := set .emptyDir "sizeLimit" $v.cache.sizeLimit }}{{ end -}}
{{- $volumes = append $volumes . -}}
{{- end -}}
{{- range $name, $secret := $secrets -}}
{{- $mounts = append $mounts (dict "name" $name "mountPath" (printf "/etc/osm-gitops/%s" $name) "readOnly" true) -}}
{{- $volumes = append $volumes (dict "name" $name "secret" (dict "secretName" $secret)) -}}
{{- end -}}
{{- $_ := set $c "volumeMounts" (concat $mounts $v.extraVolumeMounts) -}}
{{- $_ := set $pod "volumes" (concat $volumes $v.extraVolumes) -}}
{{- range $key, $value := dict "imagePullSecrets" $v.image.pullSecrets "priorityClassName" $v.priorityClassName "nodeSelector" $v.nodeSelector "tolerations" $v.tolerations "affinity" $v.affinity "topologySpreadConstraints" $v.topologySpreadConstraints -}}
{{- if $value }}{{ $_ := set $pod $key $value }}{{ end -}}
{{- end -}}
{{- end -}}
