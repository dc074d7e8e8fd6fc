// Package webhook has the admission webhooks of operating-system-manager, on its paths, one more for
// pools, and the certificates that they are served with.
//
// Rules that CEL can express are not here: they are in the CustomResourceDefinitions and
// in the policies of deploy/admission.yaml, which need no process. The webhooks set the
// default of a MachineDeployment's profile annotation, check whether a profile exists and
// suits the pool, and whether a profile's templates parse. A webhook never prevents a
// deletion, and the configurations in deploy/webhook.yaml admit every request while no
// controller answers.
//
// Certificates creates the CA and the serving certificate, stores both in one Secret that
// all replicas share, and renews them. Bundles publishes the CA to the API server. The
// library for this, github.com/open-policy-agent/cert-controller v0.16.0, does not meet
// the requirements: it serves from files that the kubelet mounts, up to minutes after the
// Secret changed, it replaces a CA without a time in which both are valid, it writes the
// whole webhook configuration, its keys are RSA, and tests cannot set its clock.
//
// Start with Setup in setup.go; package pki decides, without a cluster or a clock, which
// certificates are due.
package webhook
