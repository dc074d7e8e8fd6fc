package v1alpha1

import "slices"

// builtinProfiles are built into operating-system-manager.
var builtinProfiles = []string{"osp-amzn2", "osp-flatcar", "osp-flatcar-cloud-init", "osp-rhel", "osp-rockylinux", "osp-ubuntu"}

// IsBuiltinProfile reports whether operating-system-manager has a built-in profile of a name.
func IsBuiltinProfile(name string) bool { return slices.Contains(builtinProfiles, name) }
