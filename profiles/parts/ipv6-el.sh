{{- if or (eq .NetworkIPFamily "IPv6") (contains "+" .NetworkIPFamily) }}
# Lets NetworkManager ask for an address of IPv6 on the interface of the default
# route. What the interface has already stays: the connection is not taken down.
routes=$(ip -o -4 route show default && ip -o -6 route show default)
device=$(sed -n '/ dev /{s/.* dev \([^ ]*\).*/\1/p;q}' <<<"$routes")
if [[ -n $device && -z $(ip -o -6 address show dev "$device" scope global) ]] && command -v nmcli >/dev/null; then
  connection=$(nmcli -g GENERAL.CON-UUID device show "$device" || true)
  case $(nmcli -g ipv6.method connection show "$connection" 2>/dev/null) in
  disabled | ignore | link-local) nmcli connection modify "$connection" ipv6.method auto ;;
  esac
  nmcli device reapply "$device" || true
fi
{{- end }}
