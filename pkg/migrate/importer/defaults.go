package importer

// referenceDefaults are the profiles that operating-system-manager installs by itself, by
// name, with the digest of each at version v1.11.2 (its commit 9131d36), as profile.Digest
// computes it. A test computes them from the conformance corpus.
var referenceDefaults = map[string]string{
	"osp-amzn2":              "v1:sha256:63b205a08abc16d1ffe4e58441a49464aebeef11da67bd34cb3d1ff060fb1fa4",
	"osp-flatcar":            "v1:sha256:4d80845089909ee36d6be713accf995338367249f95715d6f6454bb54c3b2e18",
	"osp-flatcar-cloud-init": "v1:sha256:e36e9b95d29300337dcf9f47aa7b6a94f7023950aa586ea3f317c60f47da3f7d",
	"osp-rhel":               "v1:sha256:9f8a4a2d089bc79e684ed128b50de4981359ed73da51de0db4ab21dc0e5c6c11",
	"osp-rockylinux":         "v1:sha256:8e8d39449c4b492e67e3e8cd64b7cf38a0a48fa2197391a658df02b2122c0499",
	"osp-ubuntu":             "v1:sha256:5347e5be91393403802ec8b7b116c48c1b36a32b9fa9f357d30f2171cc83fa80",
}

// referenceVersion is the version of those digests.
const referenceVersion = "v1.11.2"
