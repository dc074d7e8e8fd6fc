package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
)

// kubeletConfig has the values of the kubelet annotations of a pool. A field is nil if the
// annotation is absent; for an empty annotation it is a pointer to an empty value, which `if`
// treats as true.
type kubeletConfig struct {
	KubeReserved                *map[string]string
	SystemReserved              *map[string]string
	EvictionHard                *map[string]string
	MaxPods                     *int32
	ContainerLogMaxSize         *string
	ContainerLogMaxFiles        *string
	ImageGCHighThresholdPercent *int32
	ImageGCLowThresholdPercent  *int32
	ImageMinimumGCAge           *Duration
	ImageMaximumGCAge           *Duration
}

// Duration prints in the format of kubelet.conf, "5m0s".
type Duration struct {
	time.Duration
}

// MarshalJSON writes the text, as for a duration of Kubernetes.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// kubeletAnnotations are the known suffixes, each with a function that sets its field.
var kubeletAnnotations = map[string]func(*kubeletConfig, string) error{
	"KubeReserved":                func(c *kubeletConfig, v string) error { return setPairs(&c.KubeReserved, v, "=") },
	"SystemReserved":              func(c *kubeletConfig, v string) error { return setPairs(&c.SystemReserved, v, "=") },
	"EvictionHard":                func(c *kubeletConfig, v string) error { return setPairs(&c.EvictionHard, v, "<") },
	"MaxPods":                     func(c *kubeletConfig, v string) error { return setInt(&c.MaxPods, v) },
	"ContainerLogMaxSize":         func(c *kubeletConfig, v string) error { c.ContainerLogMaxSize = &v; return nil },
	"ContainerLogMaxFiles":        func(c *kubeletConfig, v string) error { c.ContainerLogMaxFiles = &v; return nil },
	"ImageGCHighThresholdPercent": func(c *kubeletConfig, v string) error { return setInt(&c.ImageGCHighThresholdPercent, v) },
	"ImageGCLowThresholdPercent":  func(c *kubeletConfig, v string) error { return setInt(&c.ImageGCLowThresholdPercent, v) },
	"ImageMinimumGCAge":           func(c *kubeletConfig, v string) error { return setDuration(&c.ImageMinimumGCAge, v) },
	"ImageMaximumGCAge":           func(c *kubeletConfig, v string) error { return setDuration(&c.ImageMaximumGCAge, v) },
}

// parseKubeletAnnotations parses the annotations, by suffix. Unknown suffixes are ignored, as in
// operating-system-manager.
func parseKubeletAnnotations(annotations map[string]string) (kubeletConfig, []*invalid.Error) {
	var config kubeletConfig
	var problems []*invalid.Error
	for _, suffix := range slices.Sorted(maps.Keys(annotations)) {
		set := kubeletAnnotations[suffix]
		if set == nil {
			continue
		}
		if err := set(&config, annotations[suffix]); err != nil {
			problems = append(problems, invalid.At("metadata.annotations["+api.AnnotationKubeletConfigPrefix+suffix+"]", "%w", err))
		}
	}
	return config, problems
}

// setPairs parses "cpu=200m,memory=1Gi". If a key occurs twice, the later value counts, and
// blanks are part of keys and values, as in operating-system-manager. Empty items are skipped.
func setPairs(to **map[string]string, value, delimiter string) error {
	pairs := map[string]string{}
	*to = &pairs
	for item := range strings.SplitSeq(value, ",") {
		if strings.TrimSpace(item) == "" {
			continue
		}
		k, v, ok := strings.Cut(item, delimiter)
		if !ok || strings.TrimSpace(k) == "" || strings.TrimSpace(v) == "" {
			return fmt.Errorf("%q is not a pair: write name%svalue, with commas between pairs", item, delimiter)
		}
		pairs[k] = v
	}
	return nil
}

func setInt(to **int32, value string) error {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return fmt.Errorf("%q is not a 32-bit integer", value)
	}
	i := int32(n)
	*to = &i
	return nil
}

func setDuration(to **Duration, value string) error {
	d, err := time.ParseDuration(value)
	if err != nil {
		return fmt.Errorf("%q is not a duration: write one like \"5m\" or \"1h30m\"", value)
	}
	*to = &Duration{d}
	return nil
}
