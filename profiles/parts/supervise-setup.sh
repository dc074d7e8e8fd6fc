#!/bin/bash
# supervise-setup.sh COMMAND [ARGUMENT...]: runs a command until it succeeds, with a
# pause of 1, 2, 4 and so on up to 60 seconds after each failure, and reports what fails
# and why: docs/boots.md.
dir=/run/osm-gitops # in memory: the disk may be full
if [[ $0 != "${BASH_SOURCE[0]}" ]]; then # in the command's bash, as BASH_ENV
  unset BASH_ENV dir
  set -E
  # After the return of a function the line is that of the call, so the command is left out.
  trap '((BASH_SUBSHELL)) || printf "%s\n" "${BASH_SOURCE[0]-}" $LINENO "${BASH_COMMAND##return*}" >/run/osm-gitops/cause' ERR
  return
fi
set -uo pipefail

# credentials: those that the profile inserts, and their parts, a line for each, the
# longest first: a credential can contain another.
credentials() {
  {
    cat /etc/osm-gitops/token-header /etc/kubernetes/cloud-config
    grep -v '^mirror: [^@]*$' /etc/osm-gitops/credentials
    grep -h @ /etc/osm-gitops/proxy.env
    grep -h -r -i -E 'auth|pass|token|user|@' /etc/kubernetes/bootstrap-kubelet.conf /etc/containerd
  } | sed -E '
    s/^ +//
    /^(-|"[^"]*",?$)/!s/^[^:=]*[:=]// # the key; what is in a list has none
    s/^(- )?[][ "'\'',{}]*//
    s/[][ "'\'',{}]*$//
    p
    s/[][{}:, ]*["'\''][][{}:, ]*/\n/g
    p
    s/[]["'\'' ,:=@/{}]+/\n/g' |
    while IFS= read -r word; do
      printf '%s\n%b\n' "$word" "${word//%/\\x}"
    done | tr -cd '\n -~' | grep -E '.{6}' |
    awk '!seen[$0]++ { print length($0), $0 }' | sort -rn | cut -d ' ' -f 2-
}

# clean: what is printable of standard input, without credentials.
clean() {
  tr '\t' ' ' | tr -cd '\n -~' |
    awk 'NR == FNR { secret[++n] = $0; next }
      {
        for (j = 1; j <= n; j++)
          while (i = index($0, secret[j]))
            $0 = substr($0, 1, i - 1) "***" substr($0, i + length(secret[j]))
        print
      }' <(credentials) - |
    sed -E 's|//[^/ ]*@|//***@|g; s/eyJ[[:alnum:]._-]+/***/g' |
    sed -E 's/(Authorization:|Bearer |Basic |(pass(w(or)?d)?|token|secret)["'\'']?[:=]).*/\1 ***/I'
}

# quoted: standard input as the inside of a string of JSON.
quoted() {
  sed 's/["\\]/\\&/g; s/$/\\n/' | tr -d '\n' | sed 's/\\n$//'
}

# entry STAGE OUTCOME ATTEMPT [STATUS]: writes the entry of a stage, with the cause of a
# status.
entry() {
  local cause file
  {
    printf '{"outcome":"%s","machine":"%s","stage":"%s","attempt":%d,"config":"%s","bootID":"%s","time":"%s"' "$2" "$machine" "$1" $(($3 > 0 ? $3 : 1)) \
      '{{ .Provenance.ConfigDigest }}' "$boot" "$(date -u +%FT%TZ)"
    if [[ ${4-} ]]; then
      mapfile -t cause <$dir/cause
      file=$(printf '%s\n' "${cause[0]-}" | clean)
      if [[ ${#file} -gt 256 || ! $file =~ ^(/[A-Za-z0-9._@+*-]+)+$ ]]; then # such as "environment", which has a function
        file='' cause[1]=0
      fi
      printf ',"exitStatus":%d,"file":"%s","line":%d,"command":"%s","log":"%s"' "$4" "$file" "${cause[1]-0}" \
        "$(printf '%s\n' "${cause[@]:2}" | clean | head -c 512 | quoted)" "$(clean <"$dir/log" | tail -c 4096 | quoted)"
    fi
    echo "}"
  } >"$dir/$1.json"
}

# send [first|last]: sends all entries, at most six times in a boot. Unless it is the first
# of a stage or the last, it leaves room for the first failure of Setup, that of Join and
# the last success.
send() {
  local account entries most=6
  if [[ $# == 0 ]]; then
    most=$((5 - (attempts[Setup] == 0) - (attempts[Join] == 0)))
  fi
  account=$(cut -d . -f 2 /etc/osm-gitops/token-header | tr _- /+ | base64 --decode | grep -o ':node-[^"]*')
  entries=$(cat $dir/*.json | tr '\n' ,)
  if [[ -z $account || -z $entries || $(wc -l <$dir/sent) -ge $most ]]; then
    return
  fi
  echo "$boot" >>$dir/sent
  printf '{"apiVersion":"gitops.k8c.io/v1alpha1","kind":"BootReport","metadata":{"name":"%s"},"spec":{"machines":[%s]}}' "${account#:}" "${entries%,}" |
    curl --fail --max-time 10 --request PATCH --cacert /etc/kubernetes/pki/ca.crt --header @/etc/osm-gitops/token-header \
      --header Content-Type:application/apply-patch+yaml --data @- \
      "{{ trimSuffix "/" .ServerURL }}/apis/gitops.k8c.io/v1alpha1/namespaces/cloud-init-settings/bootreports/${account#:}?fieldManager=$machine&force=true"
}

# failed COMMAND STATUS: reports the first failure of a stage, another cause, and the
# same one after 1, 4 and 10 minutes.
failed() {
  local stage=Setup cause first=
  if grep -q kubelet-client-current.pem $dir/cause; then
    stage=Join
    succeeded Setup
  fi
  cause=$stage$2$(cat $dir/cause)
  ((attempts[$stage]++)) || first=first start=$SECONDS due=(0 60 240 600)
  journalctl --quiet --boot --output cat --lines 200 --unit "${1##*/}" | tail -c 65536 >$dir/log
  if [[ ! -s $dir/cause ]]; then # as after exit 1, for which bash has no trap
    printf '%s\n' "$1" 0 "$(grep -v -E '^(supervise: .* ended with status|Starting |$)' $dir/log | tail -n 1 | sed 's/^/exit after: /')" >$dir/cause
  fi
  entry $stage Failing "${attempts[$stage]}" "$2"
  if [[ $cause != "$last" ]] || is_due; then
    last=$cause
    while is_due; do
      due=("${due[@]:1}")
    done
    send ${first:+first}
  fi
}

# is_due: the next report of the same cause is due. The clock may have been set meanwhile.
is_due() {
  [[ ${#due[@]} -gt 0 ]] && ((SECONDS - start >= ${due:-0}))
}

# succeeded STAGE: has the entry of a stage that had failed say so.
succeeded() {
  grep -q Failing "$dir/$1.json" && entry "$1" Succeeded "${attempts[$1]}"
}

machine=$(sed -n "s/^machine='\(.*\)'/\1/p" /opt/bin/supervise.sh)
machine=${machine:-$(cat /etc/machine-name || hostname)}
boot=$(cat /proc/sys/kernel/random/boot_id)
declare -A attempts=([Setup]=0 [Join]=0)
last='' pause=1 unsent=''
(umask 077 && mkdir -p $dir && touch $dir/{cause,log,sent})
if [[ -s /var/log/boot-reports ]]; then # the boot of each report of supervise.sh
  grep -F -x -e "$boot" /var/log/boot-reports >>$dir/sent
  rm -f /var/log/boot-reports
  entry Bootstrap Succeeded 1
  if (($(wc -l <$dir/sent) < 3)); then
    send first
  else # there is no room for a report of its own: the next one has it, or the last
    unsent=yes
  fi
fi &>/dev/null
until : >$dir/cause; BASH_ENV=$0 "$@"; do
  status=$?
  echo "supervise: $1 ended with status $status, again in $pause s" >&2
  sleep "$pause"
  failed "$1" "$status" &>/dev/null
  pause=$((pause < 32 ? pause * 2 : 60))
done
if succeeded Setup || succeeded Join || [[ $unsent ]]; then
  succeeded Join
  send last
fi &>/dev/null
exit 0
