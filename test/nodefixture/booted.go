package nodefixture

import (
	"os"
	"slices"
)

// Booted reports whether this run boots machines from a profile that we ship. Every run boots
// osp-ubuntu, which cloud-init applies, and osp-flatcar, which Ignition applies; with OSM_SOAK=1,
// as in make soak and every night, it boots all.
func Booted(profile string) bool {
	return os.Getenv("OSM_SOAK") == "1" || slices.Contains([]string{"osp-ubuntu", "osp-flatcar"}, profile)
}
