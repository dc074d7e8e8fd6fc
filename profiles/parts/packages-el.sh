# yum_install PACKAGE...: one that is not there is an error, also for releases of yum
# that are content when others are.
yum_install() {
  yum -y install "$@"
  rpm --query --whatprovides "$@" >/dev/null
}

# yum_install_known PACKAGE: does without a package that no repository has. It asks
# the metadata that yum_install has just fetched, so that a network that is down is
# not taken for a missing package.
yum_install_known() {
  if yum -q -C list "$1" >/dev/null 2>&1; then
    yum_install "$1"
  else
    echo "setup: there is no package $1" >&2
  fi
}

yum_install ca-certificates ebtables ethtool ipvsadm iptables kmod socat sudo tar util-linux

# Conveniences, clients of storage systems and agents of hypervisors. Not every mirror
# has them all, and a node without one serves all pods but those that need it.
{{- $more := list "bash-completion" "device-mapper-persistent-data" "lvm2" "nfs-utils" "wget" }}
{{- $agents := dict "kubevirt" "qemu-guest-agent" "nutanix" "iscsi-initiator-utils" "vmware-cloud-director" "open-vm-tools" "vsphere" "open-vm-tools" }}
{{- with get $agents (toString .CloudProviderName) }}{{ $more = append $more . }}{{ end }}
for package in {{ join " " $more }}; do
  yum_install_known "$package"
done
