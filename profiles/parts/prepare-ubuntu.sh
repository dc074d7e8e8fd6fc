{{- if .HTTPProxy }}
install -m {{ if contains "@" .HTTPProxy }}600{{ else }}644{{ end }} /etc/osm-gitops/apt-proxy.conf /etc/apt/apt.conf.d/proxy.conf
{{- end }}
{{- if eq .CloudProviderName "hetzner" }}
# Resolvers for when those of the network do not answer:
# https://developers.cloudflare.com/1.1.1.1/ip-addresses/
mkdir -p /etc/systemd/resolved.conf.d
cat >/etc/systemd/resolved.conf.d/90-fallback-dns.conf <<'END'
[Resolve]
FallbackDNS=1.1.1.1 1.0.0.1 2606:4700:4700::1111 2606:4700:4700::1001
END
systemctl restart systemd-resolved.service || true
{{- end }}
if ! command -v curl >/dev/null; then
  apt_get update
  apt_repair
  apt_get install ca-certificates curl
fi
