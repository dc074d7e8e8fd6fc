
# The repository's packages are signed with the key that is fetched here.
codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
install -d -m 755 /etc/apt/keyrings /etc/apt/auth.conf.d
download_key docker.gpg "$docker/linux/ubuntu/gpg" /etc/apt/keyrings/docker.asc
if [[ -n $user ]]; then
  install -m 600 /dev/null /etc/apt/auth.conf.d/docker.conf
  echo "machine $public login $user password $password" >/etc/apt/auth.conf.d/docker.conf
fi
# In place at once: apt does nothing at all with half a line.
echo "deb [arch=$arch signed-by=/etc/apt/keyrings/docker.asc] $public/linux/ubuntu $codename stable" >/etc/apt/docker.list.part
sync /etc/apt/docker.list.part
mv -f /etc/apt/docker.list.part /etc/apt/sources.list.d/docker.list
apt_get update
apt_get install --allow-downgrades --allow-change-held-packages "containerd.io=$CONTAINERD_VERSION*"
apt-mark hold containerd.io

systemctl daemon-reload
systemctl enable containerd.service
systemctl restart containerd.service
