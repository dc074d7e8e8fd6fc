package matrix

import (
	"cmp"
	"strings"
)

// DescribeRow describes a row by its provider, its kubelet and the values that are not the default.
func DescribeRow(dims []Dimension, row []int) string {
	var parts []string
	for d, dim := range dims {
		if v := row[d]; v > 0 || dim.Name == Provider || dim.Name == Kubelet {
			parts = append(parts, Describe(dim.Name, dim.Values[v].Name))
		}
	}
	return strings.Join(parts, ", ")
}

// Describe is a dimension and its values in words.
func Describe(dimension, values string) string {
	if dimension == Provider {
		return values
	}
	return cmp.Or(labels[dimension], dimension) + " " + values
}

var labels = map[string]string{
	External: "external cloud provider", IPFamily: "IP family", HostCA: "host CA", Pause: "pause image",
	Annotations: "kubelet annotations", Keys: "SSH keys", Gates: "feature gates", CloudConfig: "cloud configuration",
	System: "operatingSystemSpec", IgnitionVersion: "Ignition",
}
