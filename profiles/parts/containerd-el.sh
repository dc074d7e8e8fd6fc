
# Asks for what yum knows already: a repository whose index is not there yet, like the
# one below, is an error to it.
yum_install_known python3-dnf-plugin-versionlock

# What https://download.docker.com/linux/rhel/docker-ce.repo has, here so that a mirror
# may stand in for Docker. It is the repository of release 9, not of $releasever, which
# is 9.5 or the like on machines that are held at a minor release.
repo=/etc/yum.repos.d/docker-ce.repo key=/etc/pki/rpm-gpg/RPM-GPG-KEY-docker-ce
download_key docker.gpg "$docker/linux/rhel/gpg" "$key"
install -m "$([[ -n $user ]] && echo 600 || echo 644)" /dev/null "$repo.part"
cat >"$repo.part" <<END
[docker-ce-stable]
name=Docker CE Stable - \$basearch
baseurl=$public/linux/rhel/9/\$basearch/stable
enabled=1
gpgcheck=1
gpgkey=file://$key
END
if [[ -n $user ]]; then
  printf 'username=%s\npassword=%s\n' "$user" "$password" >>"$repo.part"
fi
# yum reads all of these files first thing, so there is never half of one.
sync "$repo.part"
mv -f "$repo.part" "$repo"
yum -y install "containerd.io-$CONTAINERD_VERSION*"
yum versionlock add containerd.io || echo "setup: containerd.io is not held at its version" >&2

systemctl daemon-reload
systemctl enable containerd.service
systemctl restart containerd.service
