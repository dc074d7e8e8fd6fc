#!/bin/bash
# Fetches the provisioning stage, writes its files and hands over to setup.service.
# It is run until it succeeds, and goes on after a reboot in the middle.
set -euo pipefail

if [[ -e /etc/bootstrap-complete ]]; then
  exit 0
fi
{{ template "configureProxyScript" }}
{{ template "prepareBootstrap" }}

config=/etc/cloud/cloud.cfg.d/{{ .SecretName }}.cfg
/opt/bin/fetch-secret {{ .SecretName }} cloud-config "$config" '^#cloud-config'

# Only the modules that are needed are run: what cloud-init has set up before, the
# network above all, stays as it is. Old releases take --file before the command.
apply() {
  if [[ $(cloud-init single --help) == *--file* ]]; then
    cloud-init single --file "$config" --name "$1" --frequency always
  else
    cloud-init --file "$config" single --name "$1" --frequency always
  fi
}
rm -f /opt/bin/setup
apply write_files
if grep -q '^bootcmd:' "$config"; then
  apply bootcmd
fi
if [[ ! -x /opt/bin/setup || ! -s /etc/systemd/system/setup.service ]]; then
  echo "bootstrap: cloud-init has not written the files of $config" >&2
  false
fi

systemctl daemon-reload
systemctl enable setup.service
touch /etc/cloud/cloud-init.disabled
sync
touch /etc/bootstrap-complete
systemctl disable bootstrap.service || true
systemctl start --no-block setup.service
