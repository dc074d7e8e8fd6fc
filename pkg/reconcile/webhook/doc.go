// Package webhook is what the API server asks before it takes an object: the
// webhooks of contract section 10 on the contract's paths, in the controller's own
// process, and the certificates that they are served with.
//
// What can be said in CEL is not here: it stands in the CustomResourceDefinitions
// and in the policies of deploy/admission.yaml, which need no process. Left for a
// webhook are the default of a MachineDeployment's profile annotation, the question
// whether a profile exists and suits the pool, and whether a profile's templates
// parse. A webhook never stands in the way of a deletion, and the configurations in
// deploy/webhook.yaml let everything through while nobody answers.
//
// Certificates makes the CA and the serving certificate, keeps both in one Secret
// that all replicas share, and renews them. Bundles tells the API server the CA. The
// library for this, github.com/open-policy-agent/cert-controller v0.16.0, was tried
// against what is needed here and does not fit: it serves from files that the kubelet
// mounts, up to minutes after the Secret changed, it replaces a CA without a time in
// which both count, it writes the whole webhook configuration, its keys are RSA, and
// its clock cannot be moved in a test.
//
// Start with Setup in setup.go; pki.go decides, without a cluster or a clock,
// which certificates are due.
package webhook
