# Units and logins read the proxy in /etc/environment; lines of an earlier run are
# replaced. Nobody but root reads it when the proxy asks for a password.
install -m 600 /dev/null /etc/environment.part
{
  grep -v -i -E '^((https?|no)_proxy=|$)' /etc/environment || true
  sed '/^$/d' /etc/osm-gitops/proxy.env
} >>/etc/environment.part 2>/dev/null
{{- $mode := "644" }}
{{- with .HTTPProxy }}{{ if contains "@" . }}{{ $mode = "600" }}{{ end }}{{ end }}
chmod {{ $mode }} /etc/environment.part
mv -f /etc/environment.part /etc/environment
while IFS= read -r line; do
  if [[ $line == *=* ]]; then
    export "${line?}"
  fi
done </etc/osm-gitops/proxy.env
