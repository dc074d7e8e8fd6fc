package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
)

// maxLabelValue is the longest value of a label:
// https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/
const maxLabelValue = 63

// PoolLabel is the value of LabelPool. No name of an object has a "_", so it is
// unambiguous.
func PoolLabel(namespace, name string) string {
	return labelFor(namespace+"_"+name, namespace+"/"+name)
}

// NodeLabel is the value of LabelNode.
func NodeLabel(name string) string { return labelFor(name, name) }

// labelFor cuts a label that is too long, and adds a digest of what it stands for.
func labelFor(label, of string) string {
	if len(label) <= maxLabelValue {
		return label
	}
	sum := sha256.Sum256([]byte(of))
	return label[:maxLabelValue-13] + "-" + hex.EncodeToString(sum[:6])
}
