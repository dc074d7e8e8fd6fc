# What is downloaded, in the versions that this profile was made for.
KUBE_VERSION=${KUBE_VERSION:-{{ .KubeVersion }}}
CNI_VERSION=${CNI_VERSION:-v1.9.1}
case $KUBE_VERSION in
v1.33.* | v1.34.* | v1.35.*) crictl=${KUBE_VERSION%.*}.0 ;;
*) crictl=v1.36.0 ;;
esac
CRICTL_VERSION=${CRICTL_VERSION:-$crictl}
