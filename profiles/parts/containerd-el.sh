{{- $mirror := urlParse (.DownloadMirrors.docker | default "https://download.docker.com" | trimSuffix "/") }}
# What https://download.docker.com/linux/rhel/docker-ce.repo has, here so that a mirror
# may stand in for Docker. It is the repository of release 9, not of $releasever, which
# is 9.5 or the like on machines that are held at a minor release. yum prints the URLs
# that it fails to read, so a password is no part of them.
docker="{{ urlJoin (omit $mirror "userinfo") }}/linux/rhel"
repo=/etc/yum.repos.d/docker-ce.repo key=/etc/pki/rpm-gpg/RPM-GPG-KEY-docker-ce
get "{{ urlJoin $mirror }}/linux/rhel/gpg" "$key.part"
mv -f "$key.part" "$key"
install -m {{ if $mirror.userinfo }}600{{ else }}644{{ end }} /dev/null "$repo.part"
cat >"$repo.part" <<END
[docker-ce-stable]
name=Docker CE Stable - \$basearch
baseurl=$docker/9/\$basearch/stable
{{- if $mirror.userinfo }}
username=$(printf '%b' "{{ $mirror.userinfo | regexFind "^[^:]*" | replace "%" "\\x" }}")
password=$(printf '%b' "{{ regexReplaceAll "^[^:]*:?" $mirror.userinfo "" | replace "%" "\\x" }}")
{{- end }}
enabled=1
gpgcheck=1
gpgkey=file://$key
END
# yum reads all of these files first thing, so there is never half of one.
sync "$repo.part"
mv -f "$repo.part" "$repo"
yum_install_known python3-dnf-plugin-versionlock
yum -y install "containerd.io-$CONTAINERD_VERSION*"
yum versionlock add containerd.io || echo "setup: containerd.io is not held at its version" >&2

systemctl daemon-reload
systemctl enable containerd.service
systemctl restart containerd.service
