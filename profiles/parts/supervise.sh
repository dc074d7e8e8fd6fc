#!/bin/bash
# supervise.sh COMMAND...: runs a command until it succeeds, with a pause of 1 to 60
# seconds after each failure. Reports: docs/boots.md.
if [[ $0 != "${BASH_SOURCE[0]}" ]]; then # as BASH_ENV
  unset BASH_ENV
  set -E
  trap '((BASH_SUBSHELL)) || echo $LINENO >/run/failed-line' ERR
  return
fi
set -uo pipefail

report() {
  case $((++n)) in 1 | 7 | 16) ;; *) return ;; esac # after 0, 1 and 10 minutes
  pool=$(cut -d . -f 2 /etc/osm-gitops/token-header | tr _- /+ | base64 -d | grep -o ':node-[^"]*')
  [[ $pool ]] || return
  machine=$(cat /etc/machine-name || hostname)
  mkdir -m 700 /var/log/osm-gitops
  echo Failing >/var/log/osm-gitops/Bootstrap.json
  echo >>/run/boot-reports
  curl -f -m 10 -X PATCH --cacert /etc/kubernetes/pki/ca.crt -H @/etc/osm-gitops/token-header -H Content-Type:application/apply-patch+yaml -d @- \
    "{{ trimSuffix "/" .ServerURL }}/apis/gitops.k8c.io/v1alpha1/namespaces/cloud-init-settings/bootreports/${pool#:}?fieldManager=$machine&force=true" <<END
{apiVersion: gitops.k8c.io/v1alpha1,kind: BootReport,metadata: {name: ${pool#:}},spec: {machines: [{machine: "$machine",stage: Bootstrap,outcome: Failing,attempt: $n,config: "{{ .Provenance.ConfigDigest }}",file: $1,line: $(cat /run/failed-line || echo 0),exitStatus: $status,bootID: $(</proc/sys/kernel/random/boot_id)}]}}
END
}

n=0 pause=1
until rm -f /run/failed-line; BASH_ENV=$0 "$@"; do
  status=$?
  echo "supervise: $1 ended with status $status, again in $pause s" >&2
  sleep "$pause"
  report "$1" &>/dev/null
  pause=$((pause < 32 ? pause * 2 : 60))
done
