#!/bin/bash
# match.sh: compares this machine with /etc/osm-gitops/manifest, and writes what differs to
# the annotation gitops.k8c.io/match of its Node: docs/node-drift.md. It changes nothing else.
set -uo pipefail
export LC_ALL=C TZ=UTC
shopt -s nullglob

certificate=/etc/kubernetes/pki/kubelet-client-current.pem # of the kubelet
reported=/run/osm-gitops-match                             # when and what was last reported
timer=osm-gitops-match.timer
config='' paths=() units=() mutable=(/etc/osm-gitops/manifest) differences=()
declare -A digest mode owner want is

# differs PATH REASON [FOUND]
differs() {
  differences+=("$1"$'\t'"$2"$'\t'"${3-}")
}

# is_mutable PATH
is_mutable() {
  local pattern
  for pattern in "${mutable[@]}"; do
    # shellcheck disable=SC2053 # a pattern
    if [[ $1 == $pattern ]]; then
      return 0
    fi
  done
  return 1
}

# node_name: the common name of the certificate, without the prefix of all nodes. In DER it
# follows the object identifier 2.5.4.3, a type and its length.
node_name() {
  local der name='06 03 55 04 03 (0c|13)( 81)? (..) 73 79 73 74 65 6d 3a 6e 6f 64 65 3a(.*)' # system:node:
  der=$(sed -n '/BEGIN CERTIFICATE/,/END CERTIFICATE/{/CERTIFICATE/!p;/END/q}' $certificate | base64 -d | od -A n -v -t x1 | tr -d '\n')
  if [[ $der =~ $name ]]; then
    name=${BASH_REMATCH[4]:0:3 * (16#${BASH_REMATCH[3]} - 12)}
    printf '%b' "${name// /\\x}"
  fi
}

if [[ ! -s $certificate ]]; then
  exit 0
fi
while IFS= read -r line; do
  rest=${line#* }
  case $line in
  "osm-gitops-manifest 1 "*) config=${rest#1 } ;;
  "file "*)
    hash=${rest%% *} rest=${rest#* }
    bits=${rest%% *} rest=${rest#* }
    path=${rest#* }
    paths+=("$path") digest[$path]=$hash mode[$path]=$bits owner[$path]=${rest%% *}
    ;;
  "mutable "*) mutable+=("$rest") ;;
  "unit "*) units+=("${rest#* }") want[${rest#* }]=${rest%% *} ;;
  esac
done </etc/osm-gitops/manifest
if [[ -z $config || ${#paths[@]} == 0 ]]; then
  exit 0
fi

# Files. One process looks at all of them, and another reads those whose content is known.
hashed=()
while IFS= read -r line; do
  is[$line]=Mounted
done < <(cut -d ' ' -f 5 /proc/self/mountinfo | grep -F -x -f <(printf '%s\n' "${paths[@]}"))
while read -r bits size user path; do
  if [[ ${is[$path]-} ]]; then
    continue
  elif [[ ${#bits} != 4 || $bits != 8* ]]; then
    is[$path]=Type
    continue
  fi
  printf -v bits '%04o' $((0x$bits & 07777))
  is[$path]=-
  if [[ $bits != "${mode[$path]}" ]]; then
    is[$path]=Mode
  elif [[ $user != "${owner[$path]}" ]]; then
    is[$path]=Owner
  fi
  if [[ ${digest[$path]} == present ]]; then
    continue
  elif ((size > 1048576)); then # more than a profile can have
    is[$path]=Content
  else
    hashed+=("$path")
  fi
done < <(stat --printf '%f %s %U:%G %n\n' -- "${paths[@]}" 2>/dev/null)
while read -r hash path; do
  if [[ $hash != "${digest[$path]-}" ]]; then
    is[$path]="Content ${hash:0:12}"
  fi
done < <(sha256sum -- ${hashed[@]+"${hashed[@]}"} 2>/dev/null </dev/null)
for path in "${paths[@]}"; do
  if [[ ${is[$path]-Missing} != - ]]; then
    # shellcheck disable=SC2086 # a reason, and what was found
    differs "$path" ${is[$path]-Missing}
  fi
done

# Units. If systemd does not answer, nothing is known about their state.
if [[ ${#units[@]} -gt 0 ]]; then
  if states=$(systemctl list-unit-files --no-legend --no-pager --full "${units[@]}" 2>/dev/null); then
    is=()
    while read -r unit state _; do
      is[$unit]=$state
    done <<<"$states"
    # What runs this check also has to run, unless the machine shuts down.
    if [[ ${is[$timer]-} == enabled ]] && ! systemctl is-active --quiet $timer && [[ $(systemctl is-system-running) != stopping ]]; then
      is[$timer]=disabled
    fi
    for unit in "${units[@]}"; do
      case ${want[$unit]}:${is[$unit]-} in
      masked:masked* | disabled:masked* | disabled:disabled | enabled:enabled*) ;;
      masked:*) differs "unit:$unit" Unmasked ;;
      *:masked*) differs "unit:$unit" Masked ;;
      enabled:) differs "unit:$unit" Missing ;;
      enabled:disabled) differs "unit:$unit" Disabled ;;
      disabled:enabled*) differs "unit:$unit" Enabled ;;
      esac
    done
  fi
  for unit in "${units[@]}"; do
    for path in /etc/systemd/system/"$unit".d/*.conf /run/systemd/system/"$unit".d/*.conf; do
      if [[ -z ${digest[$path]-} ]] && ! is_mutable "$path"; then
        differs "${path//[!a-zA-Z0-9 :_.@\/-]/?}" DropIn
      fi
    done
  done
fi

# The annotation is JSON of at most 2 KiB with 20 differences, in a string of JSON.
state=Matches list='' listed=0 others=0 q='\"'
if [[ ${#differences[@]} -gt 0 ]]; then
  state=Differs
  while IFS=$'\t' read -r path reason hash; do
    item="{${q}path$q:$q$path$q,${q}reason$q:$q$reason$q${hash:+,${q}found$q:$q$hash$q}}"
    if ((listed < 20 && ${#list} + ${#item} < 1900)); then
      list+=${list:+,}$item listed=$((listed + 1))
    else
      others=$((others + 1))
    fi
  done < <(printf '%s\n' "${differences[@]}" | sort)
  list=",${q}differences$q:[$list]"
  if ((others > 0)); then
    list+=",${q}others$q:$others"
  fi
fi
result="${q}config$q:$q$config$q,${q}state$q:$q$state$q$list"
printf -v now '%(%s)T' -1
if [[ -r $reported ]]; then
  { read -r sent && IFS= read -r before; } <$reported
  if [[ ${before-} == "$result" ]] && ((sent <= now && now < sent + 86400)); then
    exit 0
  fi
fi

printf -v at '%(%Y-%m-%dT%H:%M:%SZ)T' "$now"
if curl --fail --silent --show-error --max-time 30 --request PATCH --cacert /etc/kubernetes/pki/ca.crt --cert $certificate --key $certificate \
  --header Content-Type:application/merge-patch+json --data @- --output /dev/null \
  "{{ trimSuffix "/" .ServerURL }}/api/v1/nodes/$(node_name)?fieldManager=osm-gitops-match" <<END; then
{"metadata":{"annotations":{"gitops.k8c.io/match":"{${q}v$q:1,$result,${q}time$q:$q$at$q}"}}}
END
  printf '%s\n' "$now" "$result" >$reported
fi
exit 0
