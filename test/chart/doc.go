// Package chart holds tests of what a platform team installs: the Helm chart and the
// kustomizations of deploy/, rendered by Helm's and kustomize's own libraries, which are
// the module render's.
package chart
