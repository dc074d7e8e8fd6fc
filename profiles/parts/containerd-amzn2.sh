# Amazon's own package: Docker has none for this system.
yum_install_known yum-plugin-versionlock
yum -y install "containerd-$CONTAINERD_VERSION*"
rpm --query containerd
yum versionlock add containerd || echo "setup: containerd is not held at its version" >&2

systemctl daemon-reload
systemctl enable containerd.service
systemctl restart containerd.service
