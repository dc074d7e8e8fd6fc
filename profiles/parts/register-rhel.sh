{{- if or .RhelConfig.RHELSubscriptionManagerUser .RhelConfig.RHELUseSatelliteServer }}
# cloud-init registers the machine before the bootstrap stage runs. Where that was too
# early, because there was no network yet or a proxy was needed, it is asked again.
if ! subscription-manager identity >/dev/null 2>&1; then
  cloud-init single --name rh_subscription --frequency always || true
  if ! subscription-manager identity >/dev/null 2>&1; then
    echo "setup: this machine is not registered: see /var/log/rhsm/rhsm.log" >&2
  fi
fi
{{- end }}
