/opt/bin/setup_net_env.sh
/opt/bin/fetch-secret {{ .BootstrapKubeconfigSecretName }} kubeconfig /etc/kubernetes/bootstrap-kubelet.conf '^clusters:'

# A power failure must not leave an empty kubelet and nobody who would fetch it again.
sync
systemctl daemon-reload
systemctl enable kubelet.service kubelet-healthcheck.service osm-gitops-match.timer
systemctl restart kubelet.service
systemctl start --no-block osm-gitops-match.timer kubelet-healthcheck.service

# A kubelet whose token has ended runs all the same. It is in once the cluster has
# signed its certificate; until then its kubeconfig is fetched again.
for ((waited = 0; waited < 300; waited += 5)); do
  if [[ -s /etc/kubernetes/pki/kubelet-client-current.pem ]]; then
    break
  fi
  sleep 5
done
if [[ ! -s /etc/kubernetes/pki/kubelet-client-current.pem ]]; then
  echo "setup: the kubelet has no certificate after $waited s" >&2
  [[ -s /etc/kubernetes/pki/kubelet-client-current.pem ]] # supervise-setup.sh knows by this that it waited
fi
sync
systemctl disable setup.service || true
