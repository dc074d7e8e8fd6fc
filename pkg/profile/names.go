package profile

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ObjectName returns the name of the object that holds one version of a profile:
// name and version in lower case, with "-" for "+". Where that mapping loses
// something, 6 hex digits of the digest go before the version, so that two
// versions never share a name.
func ObjectName(name, version, digest string) string {
	if mapped := mappedVersion(version); mapped == version {
		return name + "-" + mapped
	}
	return BuiltinObjectName(name, version, digest)
}

// BuiltinObjectName returns the name of the object of a built-in version. It always
// has the digits of the digest: somebody may keep a profile of that name and
// version, with other content, in Git.
func BuiltinObjectName(name, version, digest string) string {
	return name + "-" + strings.TrimPrefix(digest, digestRecipe)[:6] + "-" + mappedVersion(version)
}

func mappedVersion(version string) string {
	return strings.ReplaceAll(strings.ToLower(version), "+", "-")
}

// LabelVersion returns a version as a label value: "_" for "+", cut to 63
// characters. It is for selecting objects; the annotation has the version itself.
func LabelVersion(version string) string {
	v := strings.ReplaceAll(version, "+", "_")
	if len(v) > validation.LabelValueMaxLength {
		v = v[:validation.LabelValueMaxLength]
	}
	return strings.TrimRight(v, "-_.")
}
