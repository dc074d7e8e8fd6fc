# An index that cannot be read now may be read in a while: without it a package looks
# as if it did not exist. One that is gone for good must not be in the way for ever.
for pause in 5 10 20 40 0; do
  if apt_get -o APT::Update::Error-Mode=any update; then
    break
  fi
  sleep "$pause"
done
apt_repair
apt_get install ca-certificates conntrack curl e2fsprogs ebtables ethtool ipvsadm \
  iptables jq kmod openssh-client socat util-linux

# Clients of storage systems and agents of hypervisors. Not every mirror has them
# all, and a node without one serves all pods but those that need it.
more=(ceph-common cifs-utils glusterfs-client nfs-common)
{{- if eq .CloudProviderName "vmware-cloud-director" "vsphere" }}
more+=(open-vm-tools)
{{- else if eq .CloudProviderName "nutanix" }}
more+=(open-iscsi)
{{- else if eq .CloudProviderName "kubevirt" }}
more+=(qemu-guest-agent)
{{- end }}
for package in "${more[@]}"; do
  if [[ $(LC_ALL=C apt-cache policy "$package") == *"Candidate: "[0-9]* ]]; then
    apt_get install "$package"
  else
    echo "setup: there is no package $package" >&2
  fi
done
