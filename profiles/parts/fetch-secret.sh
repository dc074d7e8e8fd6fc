#!/bin/bash
# fetch-secret SECRET KEY TARGET PATTERN: writes one value of a Secret in the
# namespace cloud-init-settings to TARGET, which root alone may read. A line of it
# must match PATTERN: neither an error page nor half an answer takes its place.
set -euo pipefail
umask 077

secret=$1 key=$2 target=$3 pattern=$4
trap 'rm -f "$target.answer" "$target.part"' EXIT
curl --fail --silent --show-error --connect-timeout 10 --max-time 120 \
  --cacert /etc/kubernetes/pki/ca.crt --header @/etc/osm-gitops/token-header \
  --output "$target.answer" \
  "{{ trimSuffix "/" .ServerURL }}/api/v1/namespaces/cloud-init-settings/secrets/$secret"

# The answer is JSON on one line or on many, and the value is base64: once it is cut
# at commas and braces, the value stands on a line of its own.
tr ',{}' '\n' <"$target.answer" |
  sed -n 's|^[[:space:]]*"'"$key"'":[[:space:]]*"\([A-Za-z0-9+/=]*\)"[[:space:]]*$|\1|p' |
  base64 --decode >"$target.part"
if ! grep -q -E -e "$pattern" "$target.part"; then
  echo "fetch-secret: $secret has no $key that matches $pattern" >&2
  exit 1
fi
sync "$target.part"
mv -f "$target.part" "$target"
