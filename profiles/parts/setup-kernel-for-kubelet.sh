#!/bin/bash
# The kernel settings without which the kubelet does not start: cloud-init writes
# /etc/sysctl.d too late for this boot.
set -uo pipefail
sysctl --quiet --write kernel.panic_on_oops=1 kernel.panic=10 vm.overcommit_memory=1
exit 0
