#!/bin/bash
# Loads what kube-proxy and the network plugins need. A module that the kernel does
# not have, or has built in, is no reason to have no node.
set -uo pipefail

conntrack=nf_conntrack
if modinfo nf_conntrack_ipv4 >/dev/null 2>&1; then
  conntrack=nf_conntrack_ipv4
fi
for module in ip_vs ip_vs_rr ip_vs_wrr ip_vs_sh "$conntrack" br_netfilter; do
  modprobe "$module" || echo "load-kernel-modules: $module is not loaded" >&2
done
exit 0
