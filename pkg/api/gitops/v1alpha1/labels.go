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
	return truncatedLabelValue(namespace+"_"+name, namespace+"/"+name)
}

// NodeLabel returns the value of LabelNode.
func NodeLabel(name string) string { return truncatedLabelValue(name, name) }

// truncatedLabelValue shortens a label that is too long, and appends a digest of the full name.
func truncatedLabelValue(label, of string) string {
	if len(label) <= maxLabelValue {
		return label
	}
	sum := sha256.Sum256([]byte(of))
	return label[:maxLabelValue-13] + "-" + hex.EncodeToString(sum[:6])
}
