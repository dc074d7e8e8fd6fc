package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
)

// maxLabelValue is the longest value of a label:
// https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/
const maxLabelValue = 63

// PoolLabel returns the value of LabelPool. Names of objects never contain "_", so the
// value is unambiguous.
func PoolLabel(namespace, name string) string {
	return truncateLabelValue(namespace+"_"+name, namespace+"/"+name)
}

// NodeLabel returns the value of LabelNode.
func NodeLabel(name string) string { return truncateLabelValue(name, name) }

// truncateLabelValue shortens a value that is too long, and appends the digest of digested, the full
// name.
func truncateLabelValue(value, digested string) string {
	if len(value) <= maxLabelValue {
		return value
	}
	sum := sha256.Sum256([]byte(digested))
	return value[:maxLabelValue-13] + "-" + hex.EncodeToString(sum[:6])
}
