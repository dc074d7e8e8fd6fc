systemctl restart systemd-journald.service || true
