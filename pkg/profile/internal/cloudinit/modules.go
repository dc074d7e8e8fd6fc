package cloudinit

import (
	"slices"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// Module is one module of cloud-init.
type Module struct {
	Key    api.ModuleKey
	Has    func(*osm.CloudInitModule) bool
	Copy   func(to, from *osm.CloudInitModule)
	Append func(to, from *osm.CloudInitModule) // nil if nothing can be appended
}

// Modules are the modules, in the order of osm.CloudInitModule.
var Modules = []Module{
	{
		"bootcmd", func(m *osm.CloudInitModule) bool { return m.BootCMD != nil },
		func(to, from *osm.CloudInitModule) { to.BootCMD = from.BootCMD },
		func(to, from *osm.CloudInitModule) { to.BootCMD = slices.Concat(to.BootCMD, from.BootCMD) },
	},
	{
		"rh_subscription", func(m *osm.CloudInitModule) bool { return m.RHSubscription != nil },
		func(to, from *osm.CloudInitModule) { to.RHSubscription = from.RHSubscription }, nil,
	},
	{
		"runcmd", func(m *osm.CloudInitModule) bool { return m.RunCMD != nil },
		func(to, from *osm.CloudInitModule) { to.RunCMD = from.RunCMD },
		func(to, from *osm.CloudInitModule) { to.RunCMD = slices.Concat(to.RunCMD, from.RunCMD) },
	},
	{
		"yum_repos", func(m *osm.CloudInitModule) bool { return m.YumRepos != nil },
		func(to, from *osm.CloudInitModule) { to.YumRepos = from.YumRepos }, nil,
	},
	{
		"yum_repo_dir", func(m *osm.CloudInitModule) bool { return m.YumRepoDir != "" },
		func(to, from *osm.CloudInitModule) { to.YumRepoDir = from.YumRepoDir }, nil,
	},
}

// ModuleFromCommands converts the commands that an overlay appends to a module; nil for none.
func ModuleFromCommands(c *api.ModuleCommands) *osm.CloudInitModule {
	if c == nil {
		return nil
	}
	return &osm.CloudInitModule{BootCMD: c.BootCMD, RunCMD: c.RunCMD}
}
