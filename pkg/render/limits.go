package render

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/userdata"
)

// UserDataLimit is how much user-data machine-controller can pass to a provider for a machine's
// first boot.
type UserDataLimit struct {
	// Bytes that the provider takes.
	Bytes int
	// Measured says what Bytes counts: "as it is", "in base64", or "compressed". The last
	// applies to cloud-init only: Flatcar's document is sent uncompressed.
	Measured string
	// Source is the provider's page with the limit.
	Source string
}

const (
	asItIs     = "as it is"
	inBase64   = "in base64"
	compressed = "compressed"
)

// UserDataLimits returns the limits by provider, for documents in the form in which
// machine-controller sends them. For anexia, baremetal, linode, nutanix, opennebula, scaleway,
// vmware-cloud-director and vsphere (an ISO image; a vApp property for Flatcar) no source gives a
// number. KubeVirt limits user-data only if it is not in a Secret. Machines of edge, external and
// fake receive nothing from machine-controller. For all of these, only the limit of a Secret
// applies.
func UserDataLimits() map[osm.CloudProvider]UserDataLimit {
	return map[osm.CloudProvider]UserDataLimit{
		// "the size of the data before Base64 encoding cannot exceed 32 KB"; it was 16 KB once
		"alibaba": {32 << 10, asItIs, "https://help.aliyun.com/document_detail/49121.html"},
		// "limited to 16 KB, in raw form, before it is base64-encoded"
		"aws": {16 << 10, compressed, "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-add-user-data.html"},
		// "decoded to a binary array [...] The maximum length of the binary array is 65535 bytes"
		"azure": {65535, asItIs, "https://learn.microsoft.com/en-us/javascript/api/@azure/arm-compute/osprofile"},
		// "must be plain text and may not exceed 64 KiB in size"
		"digitalocean": {64 << 10, asItIs, "https://docs.digitalocean.com/reference/api/digitalocean/#tag/Droplets/operation/droplets_create"},
		// "size must be less than or equal to 262144 bytes (256 KiB)", of one metadata value
		"gce": {256 << 10, asItIs, "https://cloud.google.com/php/docs/reference/cloud-compute/latest/V1.Items"},
		// "Cloud-Init user data [...] This field is limited to 32KiB."
		"hetzner": {32 << 10, asItIs, "https://docs.hetzner.cloud/"},
		// "must be base64 encoded and is restricted to 65535 bytes"
		"openstack": {65535, inBase64, "https://docs.openstack.org/nova/stein/user/user-data.html"},
	}
}

// UserDataLimit returns the largest bootstrap document that the pool's provider accepts, in
// bytes as the provider counts them, or the limit of a Secret if the provider has none.
func (p Pool) UserDataLimit() int {
	if limit, ok := UserDataLimits()[p.CloudProvider]; ok {
		return limit.Bytes
	}
	return maxSecretBytes
}

// UserDataSize is the size of a bootstrap document as UserDataLimit counts it.
func (p Pool) UserDataSize(bootstrap []byte) int {
	if limit, ok := UserDataLimits()[p.CloudProvider]; ok {
		return limit.measuredSize(p, bootstrap)
	}
	return len(bootstrap)
}

// maxSecretBytes is the limit of the data of a Secret, of which each document has one for itself:
// https://github.com/kubernetes/api/blob/v0.36.0/core/v1/types.go (MaxSecretSize)
const maxSecretBytes = 1 << 20 // 1 MiB

// UserDataError says that a document is larger than the limit of the provider or of a Secret.
type UserDataError struct {
	// Size and Limit in bytes, as UserDataLimit counts them.
	Size, Limit int

	message string
}

func (e *UserDataError) Error() string { return e.message }

// userData is the document of a stage.
type userData struct {
	stage    string
	config   *osm.OSCConfig
	document []byte
}

// checkSizes rejects a bootstrap document that is too long for the provider, and a document of
// either stage that is too long for a Secret. The messages contain no credential.
func (in Input) checkSizes(osc *osm.OperatingSystemConfigSpec, out *Output) []*invalid.Error {
	bootstrap := userData{stageBootstrap, &osc.BootstrapConfig, out.Bootstrap}
	provisioning := userData{stageProvisioning, &osc.ProvisioningConfig, out.Provisioning}
	if limit, ok := UserDataLimits()[in.Pool.CloudProvider]; ok {
		if size := limit.measuredSize(in.Pool, bootstrap.document); size > limit.Bytes {
			measured := limit.describeMeasurement(in.Pool)
			files := "its largest files"
			if measured == compressed {
				files += " before compression"
			}
			return []*invalid.Error{in.tooLarge(bootstrap, &UserDataError{Size: size, Limit: limit.Bytes, message: fmt.Sprintf(
				"the user-data has %d bytes %s, but %s takes %d: %s are %s; move what the first boot does not need to provisioningConfig",
				size, measured, in.Pool.CloudProvider, limit.Bytes, files, in.largestFiles(bootstrap))})}
		}
	}
	var problems []*invalid.Error
	for _, u := range []userData{bootstrap, provisioning} {
		if size := len(u.document); size > maxSecretBytes {
			problems = append(problems, in.tooLarge(u, &UserDataError{Size: size, Limit: maxSecretBytes, message: fmt.Sprintf(
				"the user-data has %d bytes, but a Secret holds %d: its largest files are %s; let the node download what is large",
				size, maxSecretBytes, in.largestFiles(u))}))
		}
	}
	return problems
}

// tooLarge points to the largest file, if it is one of the profile's.
func (in Input) tooLarge(u userData, err *UserDataError) *invalid.Error {
	field, files := "spec."+u.stage+"Config.files", in.Profile.Spec.BootstrapConfig.Files
	if u.stage == stageProvisioning {
		files = in.Profile.Spec.ProvisioningConfig.Files
	}
	if largest := in.filesBySize(u); len(largest) > 0 {
		if i := slices.IndexFunc(files, func(f osm.File) bool { return f.Path == largest[0].Path }); i >= 0 {
			field += fmt.Sprintf("[%d]", i)
		}
	}
	return invalid.SetStage(u.stage, invalid.At(field, "%w", err))[0]
}

// describeMeasurement returns what the limit counts for a pool.
func (l UserDataLimit) describeMeasurement(p Pool) string {
	if l.Measured == compressed && p.OperatingSystem == osm.OperatingSystemFlatcar {
		return asItIs
	}
	return l.Measured
}

// measuredSize returns the size of a document as the limit counts it, with the names of machines
// instead of their placeholders. A document that is short enough without compression is not
// compressed.
func (l UserDataLimit) measuredSize(p Pool, document []byte) int {
	// "<pool>-<hash>-<5 characters>", a name of at most 63 characters.
	name := min(len(p.Name)+len("-0123456789-01234"), 63)
	size := len(document)
	for _, placeholder := range []string{userdata.MachineName, "%3CMACHINE_NAME%3E"} {
		size += bytes.Count(document, []byte(placeholder)) * (name - len(placeholder))
	}
	switch measured := l.describeMeasurement(p); {
	case measured == inBase64:
		return base64.StdEncoding.EncodedLen(size)
	case measured == compressed && size > l.Bytes:
		return gzippedSize(document)
	}
	return size
}

// gzippedSize returns the length of a document after machine-controller's compression.
func gzippedSize(document []byte) int {
	n := byteCounter(0)
	z := gzip.NewWriter(&n)
	_, _ = z.Write(document) // a counter takes everything
	_ = z.Close()
	return int(n)
}

// byteCounter counts what is written.
type byteCounter int

func (c *byteCounter) Write(p []byte) (int, error) {
	*c += byteCounter(len(p))
	return len(p), nil
}

// namedFiles is how many of the largest files a message lists.
const namedFiles = 3

// largestFiles lists the files that use most of a document, with the size of each in it.
func (in Input) largestFiles(u userData) string {
	files := in.filesBySize(u)
	var names []string
	for _, f := range files[:min(len(files), namedFiles)] {
		names = append(names, fmt.Sprintf("%q (%d)", redact.ShortenWithCount(f.Path, invalid.MaxNameBytes), f.Size))
	}
	text := strings.Join(names, ", ")
	if keys := len(strings.Join(u.config.UserSSHKeys, "")); len(files) == 0 || keys > files[0].Size {
		text += fmt.Sprintf(", and the pool's %d SSH keys take %d", len(u.config.UserSSHKeys), keys)
	}
	return text
}

// filesBySize returns the files of a document, the largest first.
func (in Input) filesBySize(u userData) []userdata.FileSize {
	var files []userdata.FileSize
	if in.Pool.utility() == osm.ProvisioningUtilityIgnition {
		var parsed struct {
			Storage struct {
				Files []struct {
					Path     string `json:"path"`
					Contents struct {
						Source string `json:"source"`
					} `json:"contents"`
				} `json:"files"`
			} `json:"storage"`
		}
		_ = json.Unmarshal(u.document, &parsed) // our own document
		for _, f := range parsed.Storage.Files {
			files = append(files, userdata.FileSize{Path: f.Path, Size: len(f.Contents.Source)})
		}
	} else {
		files = in.cloudInit(u.stage, u.config).FileSizes()
	}
	slices.SortStableFunc(files, func(a, b userdata.FileSize) int { return cmp.Compare(b.Size, a.Size) })
	return files
}
