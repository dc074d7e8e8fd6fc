/opt/bin/setup_net_env.sh
/opt/bin/fetch-secret {{ .BootstrapKubeconfigSecretName }} kubeconfig /etc/kubernetes/bootstrap-kubelet.conf '^clusters:'

systemctl daemon-reload
systemctl enable kubelet.service kubelet-healthcheck.service
systemctl start kubelet.service
systemctl start --no-block kubelet-healthcheck.service
systemctl disable setup.service || true
