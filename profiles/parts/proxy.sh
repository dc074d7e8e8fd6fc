# Units and logins read the proxy in /etc/environment. What the image or an earlier
# run has set there is replaced, as far as there is something in its place. Nobody but
# root reads it when the proxy asks for a password.
names=$(sed -n 's/^\([A-Za-z_]*\)=.*/\1/p' /etc/osm-gitops/proxy.env | tr '\n' '|')
install -m 600 /dev/null /etc/environment.part
grep -v -x -E "(${names}none)=.*" /etc/environment >>/etc/environment.part 2>/dev/null || true
sed '/^$/d' /etc/osm-gitops/proxy.env >>/etc/environment.part
{{- $mode := "644" }}
{{- with .HTTPProxy }}{{ if contains "@" . }}{{ $mode = "600" }}{{ end }}{{ end }}
chmod {{ $mode }} /etc/environment.part
mv -f /etc/environment.part /etc/environment
while IFS= read -r line; do
  if [[ $line == *=* ]]; then
    export "${line?}"
  fi
done </etc/osm-gitops/proxy.env
