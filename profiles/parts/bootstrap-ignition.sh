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
  exit 1
fi

# The mark that makes Ignition run comes before the mark that ends this: a reboot
# between the two means one more round, not a node that never comes up. Without a
# machine id the next boot is a first one, which enables the units of the document.
touch /boot/flatcar/first_boot
sync
systemctl disable bootstrap.service || true
rm -r -f /etc/systemd/system/bootstrap.service /etc/systemd/system/bootstrap.service.d /etc/machine-id
sync
systemctl reboot
