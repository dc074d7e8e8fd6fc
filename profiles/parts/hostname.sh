if [[ -s /etc/machine-name ]]; then
  name=$(tr -d '[:space:]' </etc/machine-name)
  hostnamectl set-hostname "$name" || hostname "$name"
fi
