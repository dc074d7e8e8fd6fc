# apt_get waits for whoever else installs, and keeps the configuration files that
# the profile has written.
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
apt_get() {
  apt-get -q -y -o DPkg::Lock::Timeout=600 -o Dpkg::Options::=--force-confold "$@"
}

# apt_repair makes whole what a power failure has left in pieces. dpkg goes on with what it
# had unpacked; what it was unpacking apt takes for installed, so that is asked for again.
apt_repair() {
  local halves half
  dpkg --force-confold --configure -a || true
  mapfile -t halves < <(dpkg-query --show --showformat='${db:Status-Eflag} ${binary:Package}=${Version}\n' | sed -n 's/^reinstreq //p')
  for half in "${halves[@]}"; do
    apt_get install --reinstall --allow-downgrades --allow-change-held-packages "$half" ||
      apt_get install --reinstall --allow-downgrades --allow-change-held-packages "${half%%=*}"
  done
  dpkg --force-confold --configure -a
}
