{{- $noUpdates := .FlatcarConfig.DisableAutoUpdate }}
{{- $off := list "docker" }}
{{- if or $noUpdates .FlatcarConfig.DisableUpdateEngine }}{{ $off = append $off "update-engine" }}{{ end }}
{{- if or $noUpdates .FlatcarConfig.DisableLocksmithD }}{{ $off = append $off "locksmithd" }}{{ end -}}
# Not every image has all of these.
systemctl daemon-reload
{{- range $off }}
{{- if eq . "docker" }}
systemctl stop docker.service docker.socket || true
systemctl disable docker.service docker.socket || true
{{- else }}
systemctl stop {{ . }}.service || true
systemctl mask {{ . }}.service || true
{{- end }}
{{- end }}
{{- if and .HTTPProxy (not (has "update-engine" $off)) }}
systemctl try-restart update-engine.service || true
{{- end }}
systemctl restart containerd.service
