package profile

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ObjectName returns the name of the object with one version of a profile: name and
// version in lower case, with "-" for "+". If that mapping is ambiguous, 6 hex digits of
// the digest precede the version, so that two versions never share a name.
func ObjectName(name, version, digest string) string {
	if mapped := versionForObjectName(version); mapped == version {
		return name + "-" + mapped
	}
	return BuiltinObjectName(name, version, digest)
}

// BuiltinObjectName returns the name of the object with a built-in version. It always has
// the digits of the digest: a user can have a profile of the same name and version, with
// other content, in Git.
func BuiltinObjectName(name, version, digest string) string {
	return name + "-" + strings.TrimPrefix(digest, digestRecipe)[:6] + "-" + versionForObjectName(version)
}

func versionForObjectName(version string) string {
	return strings.ReplaceAll(strings.ToLower(version), "+", "-")
}

// LabelVersion returns a version as a label value: "_" for "+", truncated to 63
// characters. Use it to select objects; the annotation has the complete version.
func LabelVersion(version string) string {
	v := strings.ReplaceAll(version, "+", "_")
	if len(v) > validation.LabelValueMaxLength {
		v = v[:validation.LabelValueMaxLength]
	}
	return strings.TrimRight(v, "-_.")
}
