case $(uname -m) in
x86_64) arch=amd64 ;;
aarch64) arch=arm64 ;;
*) arch= ;;
esac
arch=${HOST_ARCH:-$arch}
if [[ -z $arch ]]; then
  echo "setup: there are no binaries for $(uname -m)" >&2
  false
fi
install -d -m 755 /etc/cni/net.d /etc/kubernetes/manifests /opt/bin /opt/cni/bin /var/lib/osm-gitops/downloads

# get URL FILE. The URL of a mirror may hold a password, so it is no argument.
get() {
  curl --fail --silent --show-error --location --retry 3 --connect-timeout 20 \
    --speed-limit 1000 --speed-time 60 --output "$2" --config - <<<"url = \"$1\""
}

# is FILE SHA256
is() {
  echo "$2  $1" | sha256sum --check --status 2>/dev/null
}

# pinned NAME: the SHA-256 that the controller's settings give for a file, if they do.
pinned() {
  case $1 in
{{- range $file, $digest := .DownloadDigests }}
  {{ $file }}) echo {{ $digest }} ;;
{{- end }}
  *) echo ;;
  esac
}

# download NAME URL TARGET: TARGET has the SHA-256 that its publisher gives, and the
# one that the settings give if they do, or it is not there.
download() {
  local name=$1 url=$2 target=$3 sum pinned
  pinned=$(pinned "$name")
  get "$url.sha256" "$target.sha256"
  if ! sum=$(grep -o -E -m 1 '^[0-9a-f]{64}' "$target.sha256"); then
    echo "setup: $name: the file with its checksum holds no SHA-256" >&2
    return 1
  fi
  if [[ -n $pinned && $pinned != "$sum" ]]; then
    echo "setup: $name: its publisher says SHA-256 $sum, the settings say $pinned" >&2
    return 1
  fi
  if ! is "$target" "$sum"; then
    get "$url" "$target.part"
    if ! is "$target.part" "$sum"; then
      rm -f "$target.part"
      echo "setup: $name: what was downloaded has not the SHA-256 $sum" >&2
      return 1
    fi
    chmod 755 "$target.part"
    mv -f "$target.part" "$target"
  fi
}

# download_key NAME URL TARGET: a key that signs packages. Its publisher gives no
# checksum, the settings may.
download_key() {
  local pinned
  pinned=$(pinned "$1")
  get "$2" "$3.part"
  if [[ -n $pinned ]] && ! is "$3.part" "$pinned"; then
    rm -f "$3.part"
    echo "setup: $1 has not the SHA-256 $pinned, which the settings give" >&2
    return 1
  fi
  mv -f "$3.part" "$3"
}

cni=cni-plugins-linux-$arch-$CNI_VERSION.tgz
download "$cni" "{{ with .DownloadMirrors.cni }}{{ trimSuffix "/" . }}{{ else }}https://github.com/containernetworking/plugins/releases/download{{ end }}/$CNI_VERSION/$cni" "/var/lib/osm-gitops/downloads/$cni"
tar -x -z -f "/var/lib/osm-gitops/downloads/$cni" -C /opt/cni/bin --no-same-owner
chown -R root:root /opt/cni/bin

crictl=crictl-$CRICTL_VERSION-linux-$arch.tar.gz
download "$crictl" "{{ with .DownloadMirrors.crictl }}{{ trimSuffix "/" . }}{{ else }}https://github.com/kubernetes-sigs/cri-tools/releases/download{{ end }}/$CRICTL_VERSION/$crictl" "/var/lib/osm-gitops/downloads/$crictl"
tar -x -z -f "/var/lib/osm-gitops/downloads/$crictl" -C /opt/bin --no-same-owner
ln -sf /opt/bin/crictl /usr/local/bin/crictl || true

install -d -m 755 "/opt/bin/kubernetes-$KUBE_VERSION"
for binary in kubelet kubeadm kubectl; do
  download "$binary-$KUBE_VERSION-linux-$arch" \
    "{{ with .DownloadMirrors.kubernetes }}{{ trimSuffix "/" . }}{{ else }}https://dl.k8s.io{{ end }}/$KUBE_VERSION/bin/linux/$arch/$binary" \
    "/opt/bin/kubernetes-$KUBE_VERSION/$binary"
  ln -sfn "/opt/bin/kubernetes-$KUBE_VERSION/$binary" "/opt/bin/$binary"
done
