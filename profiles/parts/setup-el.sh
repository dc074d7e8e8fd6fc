#!/bin/bash
# Installs containerd, the kubelet and what they need, and starts them. It is
# run until it succeeds, and may be run again at any time.
set -euo pipefail
{{ template "versions" }}

# Until the next boot, which reads /etc/selinux/config.
setenforce 0 2>/dev/null || true
if systemctl cat firewalld.service >/dev/null 2>&1; then
  systemctl stop firewalld.service || true
  systemctl disable firewalld.service || true
fi
{{- if .HostCACert }}
{{ template "configureHostCABundle" }}
{{- end }}
/opt/load-kernel-modules.sh
sysctl --quiet --system || echo "setup: not every kernel setting was taken" >&2
{{ template "system" }}
{{ template "packages" }}
{{- with get (dict "kubevirt" "qemu-guest-agent" "nutanix" "iscsid" "vsphere" "vmtoolsd") (toString .CloudProviderName) }}
systemctl enable {{ . }}.service || true
systemctl start {{ . }}.service || true
{{- end }}
{{ template "safeDownloadBinariesScript" }}
{{ template "containerRuntimeInstallation" }}
{{ template "startKubelet" }}
