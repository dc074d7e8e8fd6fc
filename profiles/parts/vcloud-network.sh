{{ if eq .CloudProviderName "vmware-cloud-director" -}}
# vCloud Director says in the OVF environment which addresses its network has for
# this machine. Without them there is no network to fetch anything over.
ovf=$(vmtoolsd --cmd 'info-get guestinfo.ovfEnv')
property() {
  sed -n 's/.*oe:key="vCloud_'"$1"'" oe:value="\([^"]*\)".*/\1/p' <<<"$ovf"
}
# number ADDRESS and dotted NUMBER: IPv4 addresses as integers and back.
number() {
  local a b c d
  IFS=. read -r a b c d <<<"$1"
  echo $(((a << 24) + (b << 16) + (c << 8) + d))
}
dotted() {
  echo "$(($1 >> 24)).$(($1 >> 16 & 255)).$(($1 >> 8 & 255)).$(($1 & 255))"
}
nics=$(property numnics)
for ((nic = 0; nic < ${nics:-0}; nic++)); do
  if [[ $(property "bootproto_$nic") != static ]]; then
    continue
  fi
  mac=$(property "macaddr_$nic")
  interface=$(grep -l -i -x -- "$mac" /sys/class/net/*/address | sed -n '1s|.*/\([^/]*\)/address|\1|p' || true)
  if [[ -z $interface ]]; then
    echo "bootstrap: there is no interface with the address $mac yet" >&2
    false
  fi
  mask=$(number "$(property "netmask_$nic")")
  prefix=0
  for ((bits = mask; bits & 0x80000000; bits = bits << 1 & 0xffffffff)); do
    prefix=$((prefix + 1))
  done
  address=$(property "ip_$nic")
  gateway=$(property "gateway_$nic")
  {
    printf '[Match]\nName=%s\n\n[Network]\nDHCP=no\nAddress=%s/%s\n' "$interface" "$address" "$prefix"
    if [[ $nic == "$(property primaryNic)" ]]; then
      printf 'Gateway=%s\n' "$gateway"
      for dns in $(property "dns1_$nic") $(property "dns2_$nic"); do
        printf 'DNS=%s\n' "$dns"
      done
    else
      printf '\n[Route]\nGateway=%s\nDestination=%s/%s\n' "$gateway" "$(dotted $(($(number "$address") & mask)))" "$prefix"
    fi
  } >"/etc/systemd/network/0$nic-$interface.network"
done
systemctl restart systemd-networkd.service
sleep 5
{{- end }}
