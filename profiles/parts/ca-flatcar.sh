install -m 644 /etc/osm-gitops/host-ca.crt /etc/ssl/certs/custom.pem
update-ca-certificates
