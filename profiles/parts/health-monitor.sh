#!/bin/bash
# health-monitor.sh kubelet|container-runtime: kills a unit that runs but does not
# answer; systemd starts it again.
set -uo pipefail

kubelet_answers() {
  # A kubelet that has lost its connection to the API server may not notice:
  # https://github.com/kubernetes/kubernetes/issues/87615
  if [[ $(journalctl --unit kubelet.service --lines 1 --output cat) == *"use of closed network connection"* ]]; then
    echo "health-monitor: the kubelet uses a closed connection" >&2
    return 1
  fi
  curl --fail --silent --output /dev/null --max-time 10 --noproxy '*' http://127.0.0.1:10248/healthz
}

watch_kubelet() {
  local n=0
  sleep 120
  while true; do
    # The check of the machine is missed after ten minutes.
    ((n++ % 60)) || systemctl is-active --quiet osm-gitops-match.timer || /opt/bin/match.sh
    if kubelet_answers; then
      sleep 10
    else
      echo "health-monitor: the kubelet does not answer, killing it" >&2
      systemctl kill kubelet.service
      sleep 60
    fi
  done
}

runtime_answers() {
  timeout 60 /opt/bin/crictl pods >/dev/null
}

watch_runtime() {
  local pause=1
  for _ in 1 2 3 4 5; do
    if runtime_answers; then
      break
    fi
    sleep "$pause"
    pause=$((pause * 2))
  done
  while true; do
    if runtime_answers; then
      sleep 10
    else
      echo "health-monitor: containerd does not answer, killing it" >&2
      systemctl kill --kill-who=main containerd.service
      sleep 120
    fi
  done
}

case ${1:-} in
kubelet) watch_kubelet ;;
container-runtime) watch_runtime ;;
*)
  echo "usage: health-monitor.sh kubelet|container-runtime" >&2
  exit 2
  ;;
esac
