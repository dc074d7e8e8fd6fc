#!/bin/bash
# supervise.sh COMMAND [ARGUMENT...]: runs a command until it succeeds, with a pause
# of 1, 2, 4 and so on up to 60 seconds after each failure.
set -uo pipefail

pause=1
until "$@"; do
  echo "supervise: $1 ended with status $?, again in $pause s" >&2
  sleep "$pause"
  pause=$((pause < 32 ? pause * 2 : 60))
done
