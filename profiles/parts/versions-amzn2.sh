# What this system has in releases of its own. CNI_VERSION keeps its value below.
CNI_VERSION=${CNI_VERSION:-v1.7.1}
CONTAINERD_VERSION=1.7
