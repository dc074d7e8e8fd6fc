{{- if eq .CloudProviderName "hetzner" }}
# The network stays as cloud-init has made it, and the resolvers are the ones that
# NetworkManager knows.
mkdir -p /etc/cloud/cloud.cfg.d
echo "network: {config: disabled}" >/etc/cloud/cloud.cfg.d/99-disable-network-config.cfg
if [[ -s /run/NetworkManager/resolv.conf ]]; then
  ln -sfn /run/NetworkManager/resolv.conf /etc/resolv.conf
fi
{{- end }}
if ! command -v curl >/dev/null; then
  yum -y install ca-certificates curl
fi
