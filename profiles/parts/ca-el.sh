install -m 644 /etc/osm-gitops/host-ca.crt /etc/pki/ca-trust/source/anchors/custom.crt
update-ca-trust
