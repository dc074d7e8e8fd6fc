# apt_get waits for whoever else installs, and keeps the configuration files that
# the profile has written.
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
apt_get() {
  apt-get -q -y -o DPkg::Lock::Timeout=600 -o Dpkg::Options::=--force-confold "$@"
}
