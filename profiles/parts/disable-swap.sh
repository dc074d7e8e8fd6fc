#!/bin/bash
# Turns swap off, now and at the next boot. The first /etc/fstab is kept beside it.
set -euo pipefail

swap='^[^#[:space:]]+[[:space:]]+[^[:space:]]+[[:space:]]+swap([[:space:]]|$)'
if [[ -e /etc/fstab ]] && grep -q -E "$swap" /etc/fstab; then
  [[ -e /etc/fstab.orig ]] || cp -p /etc/fstab /etc/fstab.orig
  sed -i -E "/$swap/d" /etc/fstab
fi
swapoff -a
