#!/bin/bash
# Finds the addresses and the name with which the kubelet registers this node, for
# kubelet.service.
set -euo pipefail

# The source address of packets to the rest of the world. The destinations are for
# documentation (RFC 5737, RFC 3849): the kernel looks up a route, nothing is sent.
address() {
  case $1 in
  4) ip -o -4 route get 192.0.2.1 ;;
  6) ip -o -6 route get 2001:db8::1 ;;
  esac 2>/dev/null | sed -n 's/.* src \([^ ]*\).*/\1/p'
}
v4=$(address 4 || true)
v6=$(address 6 || true)
{{- if eq .NetworkIPFamily "IPv6" }}
first=$v6 second=
{{- else if eq .NetworkIPFamily "IPv4+IPv6" }}
first=$v4 second=$v6
{{- else if eq .NetworkIPFamily "IPv6+IPv4" }}
first=$v6 second=$v4
{{- else }}
first=$v4 second=
{{- end }}
if [[ -z $first ]]; then
  echo "setup_net_env: no address of the family {{ .NetworkIPFamily | default "IPv4" }} has a default route (IPv4: ${v4:-none}, IPv6: ${v6:-none})" >&2
  exit 1
fi

name=$(hostname -f 2>/dev/null || hostname)
if [[ -r /run/metadata/flatcar ]]; then
  ec2=$(sed -n 's/^COREOS_EC2_HOSTNAME=//p' /run/metadata/flatcar)
  name=${ec2:-$name}
fi
if [[ -s /etc/machine-name ]]; then
  name=$(tr -d '[:space:]' </etc/machine-name)
fi

mkdir -p /etc/kubernetes
cat >/etc/kubernetes/nodeip.conf.part <<END
KUBELET_NODE_IP=$first${second:+,$second}
KUBELET_HOSTNAME=$name
END
mv -f /etc/kubernetes/nodeip.conf.part /etc/kubernetes/nodeip.conf
