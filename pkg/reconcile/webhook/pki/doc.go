// Package pki decides which certificates of the webhooks to renew, and creates them: CAs, whose
// successors are published before they sign, and the serving certificate.
//
// It has no cluster and no clock. Start with Credentials.RenewIfDue.
package pki
