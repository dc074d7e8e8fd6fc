#!/bin/bash
# match.sh: compares this machine with /etc/osm-gitops/manifest, and writes what differs to
# the annotation gitops.k8c.io/match of its Node: docs/node-drift.md. It changes nothing else.
set -uo pipefail
export LC_ALL=C TZ=UTC
shopt -s nullglob

certificate=/etc/kubernetes/pki/kubelet-client-current.pem # of the kubelet
manifest=/etc/osm-gitops/manifest
reported=/run/osm-gitops-match    # when and what was last reported
copy=/var/lib/osm-gitops/match.sh # of this script, for a service that does not find it
timer=osm-gitops-match.timer
config='' paths=() units=() mutable=()
declare -A digest mode owner want is

# give_up PROGRAM: what it failed to tell is not known, so nothing is reported. The timer
# starts the next attempt.
give_up() {
  echo "match: $1 failed" >&2
  exit 0
}

# differs PATH REASON [FOUND]
differs() {
  printf '%s\t%s\t%s\n' "$1" "$2" "${3-}"
}

# is_mutable PATH
is_mutable() {
  local pattern
  for pattern in ${mutable[@]+"${mutable[@]}"}; do
    if [[ $1 == "$pattern" || ($pattern == */\* && $1 == "${pattern%\*}"*) ]]; then
      return 0
    fi
  done
  return 1
}

# is_of_old_stage PATH: the first stage of this machine is of another configuration, and
# the file was not changed since. That configuration may have had no manifest.
is_of_old_stage() {
  [[ -e /opt/bin/supervise.sh && $1 -ot $manifest ]] && ! grep -q -F -e "$config" /opt/bin/supervise.sh
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

# read_manifest: without one that can be read, nothing else can be compared.
read_manifest() {
  local text='' line rest hash bits path
  if [[ -f $manifest ]]; then
    text=$(cat $manifest) || give_up cat
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
  done < <(printf '%s\n' "$text")
  if [[ -z $config ]]; then # it says nothing about the rest
    config='{{ .Provenance.ConfigDigest }}' paths=() units=()
    if [[ -f $manifest ]]; then
      differs $manifest Content
    elif [[ -e $manifest || -L $manifest ]]; then
      differs $manifest Type
    else
      differs $manifest Missing
    fi
  fi
}

# compare_files: one process looks at all of them, and another reads those whose content is
# known.
compare_files() {
  local hashed=() missing=() mounted sums gone bits size user path hash
  mounted=$(awk 'NR == FNR { path[$0]; next } { gsub(/\\040/, " ", $5) } $5 in path { print $5 }' <(printf '%s\n' "${paths[@]}") /proc/self/mountinfo) ||
    give_up awk
  while IFS= read -r path; do
    if [[ $path ]]; then
      is[$path]=Mounted
    fi
  done < <(printf '%s\n' "$mounted")
  while read -r bits size user path; do
    path=${path%/} # which is there so that spaces before it stay
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
  done < <(stat --printf '%f %s %U:%G %n/\n' -- "${paths[@]}" 2>/dev/null)
  for path in "${paths[@]}"; do
    if [[ -z ${is[$path]-} ]]; then
      missing+=("$path") is[$path]=Missing
    fi
  done
  if [[ ${#missing[@]} -gt 0 ]]; then
    gone=$(stat -- "${missing[@]}" 2>&1 >/dev/null | grep -c -E ': (No such file or directory|Not a directory|Too many levels of symbolic links)$')
    if [[ $gone != "${#missing[@]}" ]]; then
      give_up stat
    fi
  fi
  if [[ ${#hashed[@]} -gt 0 ]]; then
    sums=$(sha256sum -- "${hashed[@]}") || give_up sha256sum
    while IFS= read -r line; do
      hash=${line:0:64} path=${line:66}
      if [[ $hash != "${digest[$path]-}" ]]; then
        is[$path]="Content ${hash:0:12}"
      fi
    done < <(printf '%s\n' "$sums")
  fi
  for path in "${paths[@]}"; do
    case ${is[$path]} in
    -) ;;
    "Content "*) is_of_old_stage "$path" || differs "$path" Content "${is[$path]#* }" ;;
    *) differs "$path" "${is[$path]}" ;;
    esac
  done
}

# compare_units: their state and drop-ins, and that the timer of this check runs.
compare_units() {
  local states unit state running path
  is=()
  # It also fails if none of them exists, without a word.
  states=$(systemctl list-unit-files --no-legend --no-pager --full "${units[@]}" 2>&1) || [[ $? == 1 && -z $states ]] || give_up systemctl
  while read -r unit state _; do
    if [[ $unit ]]; then
      is[$unit]=$state
    fi
  done < <(printf '%s\n' "$states")
  # What runs this check also has to run, unless the machine shuts down.
  running=$(systemctl show --property ActiveState $timer) || give_up systemctl
  if [[ ${is[$timer]-} == enabled && $running != *=active ]]; then
    case $(systemctl is-system-running) in
    stopping) ;;
    ?*) is[$timer]=disabled ;;
    *) give_up systemctl ;;
    esac
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
    for path in /{etc,run}/systemd/system{,.control}/"$unit".d/*.conf; do
      if [[ -z ${digest[$path]-} ]] && ! is_mutable "$path"; then
        differs "${path//[!a-zA-Z0-9 :_.@\/-]/?}" DropIn
      fi
    done
  done
}

# compare: the configuration, and a line for each difference.
compare() {
  read_manifest
  if [[ ${#paths[@]} -gt 0 ]]; then
    compare_files
  fi
  if [[ ${#units[@]} -gt 0 ]]; then
    compare_units
  fi
  echo "config $config"
}

if [[ ! -s $certificate ]]; then
  exit 0
fi
if [[ ! -e $copy ]]; then
  mkdir -p "${copy%/*}" && cp -p "$0" $copy.new && mv $copy.new $copy
fi
mapfile -t differences < <(compare)
if [[ ${#differences[@]} == 0 ]]; then
  exit 0
fi
last=$((${#differences[@]} - 1))
config=${differences[$last]#config }
if [[ $config == "${differences[$last]}" ]]; then # a program has failed
  exit 0
fi
unset "differences[$last]"

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
  if ((listed + others != ${#differences[@]})); then
    give_up sort
  fi
  list=",${q}differences$q:[$list]"
  if ((others > 0)); then
    list+=",${q}others$q:$others"
  fi
fi
result="${q}config$q:$q$config$q,${q}state$q:$q$state$q$list"
printf -v now '%(%s)T' -1
# A kubelet that starts creates its Node again, without annotations, if that was deleted.
kubelet=$(systemctl show --property ActiveEnterTimestampMonotonic kubelet.service) || give_up systemctl
if [[ -r $reported ]]; then
  { read -r sent && IFS= read -r before; } <$reported
  if [[ ${before-} == "$kubelet $result" ]] && ((sent <= now && now < sent + 86400)); then
    exit 0
  fi
fi

printf -v at '%(%Y-%m-%dT%H:%M:%SZ)T' "$now"
node=$(node_name)
if [[ -z $node ]]; then
  give_up "reading $certificate"
fi
if printf '%s' "{\"metadata\":{\"annotations\":{\"gitops.k8c.io/match\":\"{${q}v$q:1,$result,${q}time$q:$q$at$q}\"}}}" |
  curl --fail --silent --show-error --max-time 30 --request PATCH --cacert /etc/kubernetes/pki/ca.crt --cert $certificate --key $certificate \
    --header Content-Type:application/merge-patch+json --data @- --output /dev/null \
    "{{ trimSuffix "/" .ServerURL }}/api/v1/nodes/$node?fieldManager=osm-gitops-match"; then
  printf '%s\n' "$now" "$kubelet $result" >$reported
fi
exit 0
