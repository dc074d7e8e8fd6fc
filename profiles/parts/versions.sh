# What is downloaded, in the versions that this profile was made for.
KUBE_VERSION=${KUBE_VERSION:-{{ .KubeVersion }}}
CNI_VERSION=${CNI_VERSION:-v1.9.1}
{{- $minor := regexFind "^v1[.][0-9]+" .KubeVersion }}
{{- if not (has $minor (list "v1.33" "v1.34" "v1.35" "v1.36")) }}{{ $minor = "v1.36" }}{{ end }}
CRICTL_VERSION=${CRICTL_VERSION:-{{ $minor }}.0}
