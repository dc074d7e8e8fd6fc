#!/bin/bash
# Fetches the provisioning stage and boots again, this time with it. It is run until
# it succeeds, and goes on after a reboot in the middle.
set -euo pipefail
{{ template "configureVCloudNetworkStatic" }}
{{ template "configureProxyScript" }}

mkdir -p /usr/share/oem /boot/flatcar
config=/usr/share/oem/config.ign
/opt/bin/fetch-secret {{ .SecretName }} cloud-config "$config" '"ignition":'
if command -v jq >/dev/null && ! jq -e .ignition.version "$config" >/dev/null; then
  rm -f "$config"
  echo "bootstrap: the provisioning stage is no Ignition document" >&2
  false
fi

# The next boot runs Ignition because of the mark, and is a first boot to systemd
# without a machine id, so that it enables the units of the document. This unit goes
# last: a reboot before that means one more round, not a node that never comes up.
touch /boot/flatcar/first_boot
rm -f /etc/machine-id
sync
systemctl disable bootstrap.service || true
rm -r -f /etc/systemd/system/bootstrap.service /etc/systemd/system/bootstrap.service.d
sync
systemctl reboot
