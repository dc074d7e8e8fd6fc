#!/bin/bash
# supervise.sh SCRIPT...: runs a script until it succeeds: docs/boots.md.
set -uo pipefail
{{- /* Every byte counts in user-data, and with Ignition a space is three, so what is to be said is said here.
       It pauses for 1, 2, 4 and so on up to 60 seconds. A failure is reported at once, 1, 4 and 10 minutes after the
       first one, and when its line or status changes: at most four times. If the clock is set meanwhile, only sooner. */}}

machine='<MACHINE_NAME>'
n=0 pause=1 due=-30 last=
until echo 0 >/run/failed; bash -Ec 'trap "((BASH_SUBSHELL)) || echo \$LINENO >/run/failed" ERR; . $0' "$@"; do
  status=$?
  echo "supervise: $1 ended with status $status, again in $pause s" >&2
  sleep "$pause"
  ((n++)) || SECONDS=0
  if pool=$(cut -d. -f2 /etc/osm-gitops/token-header | tr _- /+ | base64 -d | grep -o ':node-[^"]*') cause="line: $(</run/failed),exitStatus: $status"
    ((due < 700)) && [[ $pool && ( $cause != "$last" || $SECONDS -ge $due ) ]]; then
    last=$cause due=$((due * 2 + 120))
    boot=$(tee -a /var/log/boot-reports </proc/sys/kernel/random/boot_id)
    curl -fm 10 -X PATCH --cacert /etc/kubernetes/pki/ca.crt -H @/etc/osm-gitops/token-header -H Content-Type:application/apply-patch+yaml -d "{apiVersion: gitops.k8c.io/v1alpha1,kind: BootReport,spec: {machines: [{machine: '$machine',stage: Bootstrap,outcome: Failing,attempt: $n,config: '{{ .Provenance.ConfigDigest }}',file: $1,$cause,bootID: $boot}]}}" "{{ trimSuffix "/" .ServerURL }}/apis/gitops.k8c.io/v1alpha1/namespaces/cloud-init-settings/bootreports/${pool#:}?fieldManager=$machine&force=true"
  fi &>/dev/null
  pause=$((pause < 32 ? pause * 2 : 60))
done
